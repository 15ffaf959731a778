// Lists a file's tensors with where each comes from, then makes them one by one: rows in llama.cpp's order and type.
#include "checkpoint/gguf_file.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "arch/parameter_table.h"
#include "arch/read_folder.h"
#include "arch/stored_parts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "checkpoint/gguf_rows.h"
#include "checkpoint/model_files.h"
#include "checkpoint/staged_file.h"
#include "gguf/file_type.h"
#include "gguf/model_keys.h"
#include "gguf/tokenizer_keys.h"
#include "model/stored_parameters.h"

namespace fathom::checkpoint {
namespace {

namespace fs = std::filesystem;
using weights::GgufKeys;
using weights::GgufTensor;
using weights::GgufType;
using weights::TensorSource;

constexpr uint32_t kQuantizationVersion = 2;  // of ggml's block formats

// Its tensors, each with where it comes from.
struct Contents {
  std::vector<GgufTensor> tensors;
  std::vector<GgufRows> rows;

  void add(GgufTensor tensor, GgufRows from) {
    tensors.push_back(std::move(tensor));
    rows.push_back(std::move(from));
  }
};

// The first keys of every file.
GgufKeys general_keys(const gguf::LlamaCppArchitecture& target, const char* kind, const std::string& name) {
  return {{"general.architecture", std::string(target.name)},
          {"general.type", std::string(kind)},
          {"general.name", name},
          {"general.quantization_version", kQuantizationVersion}};
}

// "290 tensors, 3.21 GiB"; how many are in FP16 because their rows are no whole blocks.
std::string write(const GgufRequest& request, const GgufKeys& keys, const Contents& contents) {
  const int64_t bytes = weights::GgufWriter::bytes_of(keys, contents.tensors);
  StagedFile file(request.out, "the export", bytes);
  weights::GgufWriter writer(file.path(), keys, contents.tensors);
  for (size_t i = 0; i < contents.tensors.size(); ++i) {
    write_rows(contents.rows[i], contents.tensors[i], request.out.string(), writer);
  }
  writer.finish();
  file.publish();
  return std::to_string(contents.tensors.size()) + " tensors, " + format_bytes(bytes);
}

std::string note_of_fallbacks(const gguf::FileType& type, const Contents& contents) {
  int64_t fallen = 0;
  for (const GgufTensor& tensor : contents.tensors) {
    fallen += weights::is_quantized(type.matrices) && tensor.type == GgufType::kF16;
  }
  if (fallen == 0) return "";
  return ", " + std::to_string(fallen) + " of them in F16, whose rows are no whole blocks of " +
         std::to_string(weights::kGgufBlock);
}

const gguf::FileType& chosen_type(const GgufRequest& request, DType stored) {
  return request.type == "auto" ? gguf::file_type_for(stored) : gguf::find_file_type(request.type);
}

// By name; the tensors of a whole model.
class ModelContents {
 public:
  ModelContents(const std::vector<TensorSource>& sources, const arch::Architecture& architecture,
                const gguf::LlamaCppArchitecture& target, const fs::path& folder)
      : architecture_(architecture), target_(target), folder_(folder) {
    for (const TensorSource& source : sources) by_name_[source.name] = &source;
  }

  const TensorSource& source(const std::string& name) const {
    const auto found = by_name_.find(name);
    if (found != by_name_.end()) return *found->second;
    refuse("there is no tensor " + name);
  }
  const TensorSource& embedding() const {
    const auto found = std::find_if(by_name_.begin(), by_name_.end(),
                                    [](const auto& each) { return arch::is_stored_embedding(each.first); });
    if (found == by_name_.end()) refuse("there is no embedding");
    return *found->second;
  }

  Contents list(const gguf::FileType& type) {
    Contents contents;
    for (const gguf::RopeFactors& each : gguf::rope_factors(architecture_)) {
      contents.add({each.name, {std::ssize(each.factors)}, GgufType::kF32}, GgufRows::of(each.factors));
    }
    // What the head reads is scaled in T5, which llama.cpp leaves to the head.
    const double scale = target_.head_scale == gguf::HeadScale::kNever ? architecture_.head_scale : 1;
    const bool tied = architecture_.tie_word_embeddings, apart = tied && (target_.needs_head || scale != 1);
    for (const arch::ParameterSpec& spec : arch::parameter_specs(architecture_)) {
      const bool is_embedding = spec.role == arch::Role::kEmbedding, is_head = spec.role == arch::Role::kHead;
      for (gguf::FileTensor& tensor : gguf::file_tensors(spec, architecture_)) {
        add(contents, spec, std::move(tensor), type, is_head || (tied && !apart && is_embedding), is_head ? scale : 1);
      }
      if (!apart || !is_embedding) continue;
      add(contents, spec, {"output.weight", spec.shape, 0, spec.shape[0]}, type, /*is_head=*/true, scale);
    }
    refuse_leftovers();
    return contents;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(folder_.string() + ": " + what, "check that config.json belongs to the weights");
  }

  void add(Contents& contents, const arch::ParameterSpec& spec, gguf::FileTensor tensor, const gguf::FileType& type,
           bool is_head, double scale) {
    GgufRows rows = rows_of(spec, tensor);
    rows.heads = gguf::heads_in_pairs(spec, architecture_, target_);
    rows.scale = scale;
    if (spec.role == arch::Role::kNorm) rows.offset = architecture_.norm_offset;
    if (spec.has_row_per_token()) tensor.shape[0] = embedding().shape.front();
    const bool in_fp32 = spec.role == arch::Role::kRouter || spec.role == arch::Role::kPositions;
    const GgufType its = in_fp32 ? GgufType::kF32 : gguf::tensor_type(type, tensor.shape, is_head);
    contents.add({std::move(tensor.name), std::move(tensor.shape), its}, std::move(rows));
  }

  // The parts that the folder has of a parameter, in the spelling that it has them in.
  std::vector<arch::StoredPart> parts_of(const arch::ParameterSpec& spec) const {
    for (std::vector<arch::StoredPart>& parts : arch::stored_spellings(architecture_, spec)) {
      const auto is_there = [&](const auto& part) { return by_name_.contains(part.name); };
      if (std::all_of(parts.begin(), parts.end(), is_there)) return std::move(parts);
    }
    return arch::stored_parts(architecture_, spec);
  }

  GgufRows rows_of(const arch::ParameterSpec& spec, const gguf::FileTensor& tensor) {
    std::vector<arch::StoredPart> parts = parts_of(spec);
    GgufRows rows;
    for (arch::StoredPart& part : parts) {
      const TensorSource& from = source(part.name);
      if (spec.has_row_per_token()) part.shape[0] = part.rows = embedding().shape.front();
      if (from.shape != part.shape) {
        refuse("tensor " + part.name + " has another shape than config.json says");
      }
      used_.insert(part.name);
      rows.sources.push_back(from);
      rows.transposed = part.transposed;
    }
    if (spec.experts == 1) {
      rows.slices = {{0, 0, parts.front().rows}};
      return rows;
    }
    const int64_t rows_each = spec.shape[0] / spec.experts;
    size_t number = 0;
    for (int64_t expert = 0; expert < spec.experts; ++expert) {
      const int64_t first = expert * rows_each + tensor.first;
      while (parts[number].first_row + parts[number].rows <= first) ++number;
      rows.slices.push_back({number, first - parts[number].first_row, tensor.rows});
    }
    return rows;
  }

  void refuse_leftovers() const {
    for (const auto& [name, source] : by_name_) {
      if (used_.contains(name) || model::is_ignored(name, architecture_)) continue;
      refuse("tensor " + name + " has no place in " + architecture_.family);
    }
  }

  const arch::Architecture& architecture_;
  const gguf::LlamaCppArchitecture& target_;
  const fs::path& folder_;
  std::map<std::string, const TensorSource*> by_name_;
  std::set<std::string> used_;
};

}  // namespace

std::string write_gguf_model(const GgufRequest& request, const std::vector<TensorSource>& sources,
                             const weights::ModelFolder& model, const fs::path& tokenizer) {
  const std::string folder = model.path().string();
  if (model.config().contains("quantization_config")) {
    throw Error(folder + " is quantized, and its codes are no GGUF's",
                "read it back with `fathom quantize " + folder + " --format bf16 --out DIR`, and export that");
  }
  const arch::Architecture architecture = arch::read_architecture(model);
  const gguf::LlamaCppArchitecture& target = gguf::llama_cpp_architecture(architecture, folder);
  ModelContents listed(sources, architecture, target, model.path());
  const gguf::FileType& type = chosen_type(request, listed.embedding().dtype);
  const int64_t vocabulary = listed.embedding().shape.front();
  const Contents contents = listed.list(type);

  GgufKeys keys = general_keys(target, "model", request.name);
  const auto append = [&keys](const GgufKeys& more) { keys.insert(keys.end(), more.begin(), more.end()); };
  append(gguf::model_keys(architecture, target, vocabulary));
  keys.emplace_back("general.file_type", type.number);
  append(gguf::tokenizer_keys(tokenizer, architecture, vocabulary));
  return std::string(type.name) + ": " + write(request, keys, contents) + note_of_fallbacks(type, contents);
}

std::string write_gguf_adapter(const GgufRequest& request, const weights::SafetensorsFile& adapter,
                               const config::RunConfig& settings, const weights::ModelFolder& base) {
  const std::string path = adapter.path().string();
  constexpr const char* kMerge = "merge it into its base: --merge";
  if (!settings.modules_to_save.empty()) {
    throw Error(path + ": a GGUF adapter cannot hold modules_to_save, which were trained whole", kMerge);
  }
  const arch::Architecture architecture = arch::read_architecture(base);
  const gguf::LlamaCppArchitecture& target = gguf::llama_cpp_architecture(architecture, base.path().string());
  const gguf::FileType& type = gguf::find_file_type(request.type == "auto" ? "f32" : request.type);
  Contents contents;
  size_t used = 0;
  for (const arch::ParameterSpec& spec : arch::parameter_specs(architecture)) {
    if (spec.role == arch::Role::kExperts) continue;  // llama.cpp has no adapters of them as PEFT has
    const std::string name = gguf::tensor_name(spec, architecture);
    const auto add = [&](const char* theirs, const char* ours, int64_t size, int64_t place, int64_t heads) {
      const weights::TensorInfo* tensor = adapter.find(name_in_adapter(adapter, spec.module() + theirs));
      if (tensor == nullptr || !spec.is_matrix()) return false;
      if (tensor->shape.size() != 2 || tensor->shape[place] != size) {
        throw Error(path + ": tensor '" + tensor->name + "' does not fit " + spec.name + " of " + base.path().string(),
                    "is this the base it was trained on?");
      }
      const TensorSource source = {tensor->name, tensor->dtype, tensor->shape, {}, adapter.data(*tensor)};
      GgufRows rows = GgufRows::whole(source);
      rows.heads = heads;
      contents.add({name + ours, tensor->shape, gguf::tensor_type(type, tensor->shape, /*is_head=*/false)},
                   std::move(rows));
      ++used;
      return true;
    };
    const bool has_a = add(".lora_A.weight", ".lora_a", spec.shape.back(), 1, 0);
    const bool has_b =
        add(".lora_B.weight", ".lora_b", spec.shape.front(), 0, gguf::heads_in_pairs(spec, architecture, target));
    if (has_a != has_b) throw Error(path + ": " + spec.module() + " has one of lora_A and lora_B without the other");
  }
  if (used < adapter.tensors().size()) {
    throw Error(path + ": holds tensors that are no adapters of " + architecture.family + "'s linear layers", kMerge);
  }
  // llama.cpp scales by alpha / rank, where rank-stabilised adapters have alpha / sqrt(rank).
  const double ranks = settings.use_rslora ? std::sqrt(static_cast<double>(settings.lora_r)) : 1;
  GgufKeys keys = general_keys(target, "adapter", request.name);
  keys.emplace_back("adapter.type", std::string("lora"));
  keys.emplace_back("adapter.lora.alpha", static_cast<float>(settings.lora_alpha * ranks));
  return std::string(type.name) + ": " + write(request, keys, contents) + note_of_fallbacks(type, contents);
}

}  // namespace fathom::checkpoint
