// One pass without gradients over train and validation rows in the order of the files; then a file of numbers.
#include "train/reference.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "config/keys.h"
#include "schedule/step_order.h"
#include "train/resume.h"

namespace fathom::train {
namespace {

constexpr std::string_view kMagic = "fathom reference 1\n";
constexpr const char* kRemedy = "begin the run anew in another output_dir";

// Keys of the config that the values depend on, beside base and data.
constexpr const char* kKeys[] = {
    "objective",    "dtype",        "bf16",        "fp16", "tf32",   "qat",         "method",
    "load_in_8bit", "load_in_4bit", "load_in_fp8", "fp8",  "lora_r", "random_init", "bnb_4bit_use_double_quant"};

template <typename Number>
void append(std::string& bytes, const Number* numbers, size_t count) {
  bytes.append(reinterpret_cast<const char*>(numbers), count * sizeof(Number));
}

// What stands before the values: the magic, the identity, how many there are of both.
std::string header_of(const std::string& identity, const Reference& reference) {
  std::string header(kMagic);
  const uint64_t counts[] = {reference.train.size(), reference.validation.size()};
  header += identity + "\n";
  append(header, counts, std::size(counts));
  return header;
}

}  // namespace

std::filesystem::path reference_file(const std::filesystem::path& output_dir) { return output_dir / "reference.logps"; }

std::string reference_identity(const config::RunConfig& config, const ReferenceSources& sources) {
  std::string parts = sources.base + " " + sources.train + " " + sources.validation;
  for (const char* key : kKeys) parts.append(" ").append(config::find_key(key)->get(config));
  return hash_bytes(parts.data(), parts.size());
}

std::optional<Reference> compute_reference(const config::RunConfig& config, const schedule::RunInputs& inputs,
                                           Trainer& trainer, const std::function<bool()>& stop,
                                           memory::Memory& memory) {
  Reference reference;
  for (const auto& [dataset, values] :
       {std::pair(&inputs.train, &reference.train), std::pair(&inputs.validation, &reference.validation)}) {
    const std::vector<std::vector<int64_t>> batches = schedule::evaluation_rows(config, *dataset);
    const auto batch_at = [&, &dataset = dataset](int64_t index) {
      return schedule::batch_of(config, *dataset, batches[static_cast<size_t>(index)], schedule::padding_id(inputs));
    };
    if (batches.empty()) continue;
    Evaluation pass = trainer.evaluate(std::ssize(batches), batch_at, stop, "the reference");
    memory.merge(pass.memory);
    if (!pass.complete) return std::nullopt;
    *values = std::move(pass.row_logprobs);
  }
  return reference;
}

Reference reference_of_run(const config::RunConfig& config, const schedule::RunInputs& inputs, Trainer& trainer,
                           const ReferenceSources& sources, const std::optional<checkpoint::Checkpoint>& resume,
                           const std::function<bool()>& stop, memory::Memory& memory) {
  Reference reference;
  if (!config::row_of(config.objective).needs_reference) return reference;
  const std::string identity = reference_identity(config, sources);
  if (resume) {
    reference = read_reference(reference_file(resume->folder().parent_path()), identity);
    if (continues_in_place(config, resume)) return reference;
  } else {
    std::optional<Reference> computed = compute_reference(config, inputs, trainer, stop, memory);
    if (!computed) throw Error("stopped before the first step, while the reference was computed", "start it again");
    reference = std::move(*computed);
  }
  write_reference(reference_file(config.output_dir), identity, reference);
  return reference;
}

void write_reference(const std::filesystem::path& file, const std::string& identity, const Reference& reference) {
  create_folders(file.parent_path(), "choose another output_dir");
  std::string content = header_of(identity, reference);
  append(content, reference.train.data(), reference.train.size());
  append(content, reference.validation.data(), reference.validation.size());
  write_file_atomically(file, content + hash_bytes(content.data(), content.size()));
}

Reference read_reference(const std::filesystem::path& file, const std::string& identity) {
  const std::string what = file.string() + ", what the model gave to the data before its first step, ";
  if (!std::filesystem::exists(file)) throw Error(what + "is missing", kRemedy);
  const std::string content = read_file(file, std::filesystem::file_size(file));
  const size_t header = kMagic.size() + identity.size() + 1 + 2 * sizeof(uint64_t);
  const size_t digest = hash_bytes("", 0).size();
  const auto refuse = [&](const char* why) { throw Error(what + why, kRemedy); };
  if (content.size() < header + digest || !content.starts_with(kMagic)) refuse("is damaged");
  const size_t values = content.size() - digest;
  if (content.substr(values) != hash_bytes(content.data(), values)) refuse("is damaged");
  if (content.compare(kMagic.size(), identity.size(), identity) != 0) {
    refuse("is of another base, of other data or of another precision");
  }
  uint64_t counts[2];
  std::memcpy(counts, content.data() + header - sizeof counts, sizeof counts);
  if ((values - header) / sizeof(float) != counts[0] + counts[1]) refuse("is damaged");
  Reference reference;
  const char* next = content.data() + header;
  for (const auto& [list, count] :
       {std::pair(&reference.train, counts[0]), std::pair(&reference.validation, counts[1])}) {
    list->resize(count);
    std::memcpy(list->data(), next, count * sizeof(float));
    next += count * sizeof(float);
  }
  return reference;
}

data::Batch batch_beside(const std::vector<float>& reference, const config::RunConfig& config,
                         const data::Dataset& dataset, const std::vector<int64_t>& examples, int32_t pad_id) {
  data::Batch batch = schedule::batch_of(config, dataset, examples, pad_id);
  if (reference.empty()) return batch;
  for (const int64_t row : dataset.rows_of(examples)) batch.reference.push_back(reference.at(static_cast<size_t>(row)));
  return batch;
}

}  // namespace fathom::train
