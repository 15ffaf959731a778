// One pass without gradients over train and validation rows in the order of the files; then a file of numbers.
#include "train/reference.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "schedule/step_order.h"
#include "train/resume.h"
#include "train/run_state.h"

namespace fathom::train {
namespace {

constexpr std::string_view kMagic = "fathom reference 1\n";

template <typename Number>
void append(std::string& bytes, const Number* numbers, size_t count) {
  bytes.append(reinterpret_cast<const char*>(numbers), count * sizeof(Number));
}

// Unset where `stop` said so.
std::optional<Reference> compute_reference(const config::RunConfig& config, const schedule::RunInputs& inputs,
                                           Trainer& trainer, const std::function<bool()>& stop,
                                           memory::Memory& memory) {
  Reference reference;
  reference.validation_data = inputs.validation.fingerprint();
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

}  // namespace

std::filesystem::path reference_file(const std::filesystem::path& output_dir) { return output_dir / "reference.logps"; }

Reference reference_of(const checkpoint::Checkpoint& checkpoint, const data::Dataset& validation) {
  const std::filesystem::path file = reference_file(checkpoint.folder().parent_path());
  Reference reference = read_reference(file, run_state(checkpoint).reference);
  if (!validation.empty() && validation.fingerprint() != reference.validation_data) {
    throw UsageError("validation_file: its rows are not those that the run began with, of which " + file.string() +
                         " says what the model gave to them before its first step",
                     "put those back, or go on without evaluations: no validation_file, eval_strategy: no");
  }
  return reference;
}

std::optional<Reference> reference_of_run(const config::RunConfig& config, const schedule::RunInputs& inputs,
                                          Trainer& trainer, const std::optional<checkpoint::Checkpoint>& resume,
                                          const std::function<bool()>& stop, memory::Memory& memory) {
  if (!config::row_of(config.objective).needs_reference) return Reference();
  std::optional<Reference> reference =
      resume ? reference_of(*resume, inputs.validation) : compute_reference(config, inputs, trainer, stop, memory);
  const bool is_there = resume && continues_in_place(config, resume);
  if (reference && !is_there) reference->digest = write_reference(reference_file(config.output_dir), *reference);
  return reference;
}

// The magic, what the values of validation are of, how many there are of both, and they.
std::string write_reference(const std::filesystem::path& file, const Reference& reference) {
  create_folders(file.parent_path(), "choose another output_dir");
  std::string content = std::string(kMagic) + reference.validation_data + "\n";
  const uint64_t counts[] = {reference.train.size(), reference.validation.size()};
  append(content, counts, std::size(counts));
  append(content, reference.train.data(), reference.train.size());
  append(content, reference.validation.data(), reference.validation.size());
  write_file_atomically(file, content);
  return hash_bytes(content.data(), content.size());
}

Reference read_reference(const std::filesystem::path& file, const std::string& digest) {
  const auto refuse = [&](const char* why) {
    throw Error(file.string() + ", what the model gave to the data before its first step, " + why,
                "copy reference.logps of that run beside the checkpoint; where there is none, begin the run anew in "
                "another output_dir");
  };
  if (!std::filesystem::exists(file)) refuse("is missing");
  const std::string content = read_file(file, std::filesystem::file_size(file));
  // With its digest it is as it was written: its parts need no checks of their own.
  if (hash_bytes(content.data(), content.size()) != digest || !content.starts_with(kMagic)) {
    refuse("is not the one of the run that saved the checkpoint, or is damaged");
  }
  const size_t line_end = content.find('\n', kMagic.size());
  Reference reference;
  reference.validation_data = content.substr(kMagic.size(), line_end - kMagic.size());
  reference.digest = digest;
  uint64_t counts[2];
  const char* next = content.data() + line_end + 1;
  std::memcpy(counts, next, sizeof counts);
  next += sizeof counts;
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
