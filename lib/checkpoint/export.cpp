// Gathers the files of an export in a staging folder and renames it.
#include "checkpoint/export.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "arch/adapter_targets.h"
#include "arch/parameter_table.h"
#include "arch/read_folder.h"
#include "arch/read_text_part.h"
#include "arch/stored_parts.h"
#include "arch/text_part.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/log.h"
#include "base/path.h"
#include "checkpoint/adapter.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/learned_codes.h"
#include "checkpoint/merge.h"
#include "checkpoint/model_files.h"
#include "checkpoint/staged_folder.h"
#include "quant/left_out.h"
#include "tokenizer/tokenizer.h"
#include "weights/folder.h"
#include "weights/hub.h"
#include "weights/manifest.h"
#include "weights/other_parts.h"

namespace fathom::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr char kAdapterConfig[] = "adapter_config.json";
constexpr char kAdapterWeights[] = "adapter_model.safetensors";

bool holds_weights(const fs::path& folder) {
  for (const char* name : {kAdapterWeights, "model.safetensors", "model.safetensors.index.json"}) {
    if (fs::exists(folder / name)) return true;
  }
  return false;
}

// The folder whose files are exported.
fs::path find_source(const fs::path& source) {
  weights::refuse_phantom(source);
  if (!fs::is_directory(source)) throw Error(source.string() + ": not a folder", "name a run, a checkpoint or a model");
  if (holds_weights(source)) {
    if (fs::exists(source / "manifest.json")) weights::read_and_verify_manifest(source);
    return source;
  }
  const std::optional<Checkpoint> newest = find_newest(source);
  if (!newest) {
    throw Error(source.string() + ": holds neither a model, nor an adapter, nor a sound checkpoint",
                "name a run, a checkpoint or a model");
  }
  log_info(source.string() + " has no final model: exporting " + newest->folder().filename().string());
  return newest->folder();
}

// In the order given, each with as many tensors as fit; a tensor that is larger has a shard of its own.
std::vector<std::vector<weights::TensorSource>> divide(const std::vector<weights::TensorSource>& tensors,
                                                       int64_t shard_bytes) {
  std::vector<std::vector<weights::TensorSource>> shards(1);
  int64_t used = 0;
  for (const weights::TensorSource& tensor : tensors) {
    const int64_t bytes = bytes_of({tensor});
    if (used > 0 && used + bytes > shard_bytes) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(tensor);
    used += bytes;
  }
  return shards;
}

void add_model_weights(StagedFolder& folder, const std::vector<weights::TensorSource>& tensors, int64_t shard_bytes) {
  const auto shards = divide(tensors, shard_bytes);
  Json index = {{"metadata", {{"total_size", bytes_of(tensors)}}}, {"weight_map", Json::object()}};
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    for (const weights::TensorSource& tensor : shards[i]) index["weight_map"][tensor.name] = name;
    folder.add_weights(name, shards[i]);
  }
  if (shards.size() > 1) folder.add("model.safetensors.index.json", format_json(index));
}

// In words, for a model with learned steps.
std::string in_codes(const std::optional<quant::Scheme>& scheme) {
  return scheme ? ", projections in " + std::string(quant::name_of(*scheme)) + " with learned steps" : "";
}

GgufRequest gguf_request(const ExportRequest& request) {
  if (request.out.extension() != ".gguf") {
    throw UsageError(request.out.string() + " does not end in .gguf, and a GGUF file is made", "name such a file");
  }
  fs::path source = tidy_path(fs::absolute(request.source));
  if (source.filename().string().starts_with("checkpoint-")) source = source.parent_path();
  return {request.out, request.gguf_type, source.filename().string()};
}

// Returns what the file holds.
std::string write_gguf(const ExportRequest& request, const std::vector<weights::TensorSource>& tensors,
                       const LearnedWeights& learned, const std::optional<quant::Scheme>& scheme,
                       const fs::path& trained) {
  const GgufRequest file = gguf_request(request);
  const fs::path& model = learned.model.path();
  if (scheme) {
    throw Error(trained.string() + " holds the learned steps of quantization-aware training, which no GGUF type has",
                "export a folder, read it back with `fathom quantize FOLDER --format bf16 --out DIR`, and export that");
  }
  return " as GGUF, " +
         write_gguf_model(file, tensors, learned.model, tokenizer::Tokenizer::is_in(trained) ? trained : model);
}

std::optional<arch::TextPart> text_part_of(const weights::ModelFolder& model) {
  const auto words = arch::text_words(model.config(), model.path().string());
  return words ? words->part : std::nullopt;
}

// scheme: of learned steps, by which projections are written in codes. Returns what else there is to tell.
std::string write_whole_model(const ExportRequest& request, std::vector<weights::TensorSource> tensors,
                              const LearnedWeights& learned, const std::optional<quant::Scheme>& scheme,
                              const fs::path& trained) {
  if (request.gguf) return write_gguf(request, tensors, learned, scheme, trained);
  const weights::ModelFolder& model = learned.model;
  if (scheme) tensors = learned_sources(tensors, learned, *scheme);
  StagedFolder folder(request.out, "the export", bytes_of(tensors));
  // Codes are no type of a model: its embedding has one.
  const auto embedding = std::find_if(tensors.begin(), tensors.end(),
                                      [](const auto& tensor) { return arch::is_stored_embedding(tensor.name); });
  const auto rows = embedding == tensors.end() ? std::nullopt : std::optional(embedding->shape.front());
  Json config =
      config_as_stored(model.config(), (embedding == tensors.end() ? tensors.begin() : embedding)->dtype, rows);
  if (scheme) {
    const Json said = quant::quantization_config(*scheme);
    config["quantization_config"] = text_part_of(model) ? quant::beside_other_parts(said) : said;
  }
  folder.add("config.json", format_json(config));
  folder.add_copies(trained, tokenizer_files(trained));
  folder.add_copies(model.path(), {"generation_config.json"});
  folder.add_copies(model.path(), tokenizer_files(model.path()));
  add_model_weights(folder, tensors, request.shard_bytes);
  folder.publish();
  return in_codes(scheme);
}

std::optional<weights::ModelFolder::Entry> find_embedding(const weights::ModelFolder& folder) {
  for (const std::string& name : folder.names()) {
    if (arch::is_stored_embedding(name)) return folder.find(name);
  }
  return std::nullopt;
}

// Rows of embedding and head in training: those that the adapter brings, else one for each token at least.
int64_t vocabulary_of(const weights::SafetensorsFile& adapter, const fs::path& trained,
                      const weights::ModelFolder& base) {
  if (const auto saved = saved_vocabulary(adapter)) return *saved;
  const auto embedding = find_embedding(base);
  if (!embedding || embedding->info->shape.empty()) return 0;
  const int64_t stored = embedding->info->shape[0];
  for (const fs::path& folder : {trained, base.path()}) {
    if (!tokenizer::Tokenizer::is_in(folder)) continue;
    return std::max(stored, tokenizer::Tokenizer::open(folder)->vocabulary_size());
  }
  return stored;
}

// The tensors say what is merged; settings that name other modules are of another base.
void require_targets(const fs::path& adapter, const weights::ModelFolder& base, const config::RunConfig& settings) {
  constexpr std::string_view kWeight = ".weight";
  if (!read_json(adapter / kAdapterConfig).value("target_parameters", Json()).is_null()) return;
  const std::optional<arch::TextPart> part = text_part_of(base);
  std::vector<std::string> matrices;
  for (const std::string& name : base.names()) {
    const bool is_matrix = name.ends_with(kWeight) && base.find(name)->info->shape.size() == 2;
    if (!is_matrix) continue;
    const std::string module = name.substr(0, name.size() - kWeight.size());
    if (part && weights::is_of_other_part(name)) continue;
    matrices.push_back(arch::name_in_whole(part, part ? arch::name_in_decoder(module) : module));
    matrices.push_back("transformer." + matrices.back());  // which folders of GPT-2 leave out, and a pattern may spell
  }
  try {
    arch::adapted_modules(matrices, settings.target_modules);
  } catch (const UsageError& error) {
    throw UsageError((adapter / kAdapterConfig).string() + ": " + error.what());
  }
}

// The folder of the model that an adapter is for.
fs::path find_base(const ExportRequest& request, const fs::path& source) {
  fs::path base = request.base;
  if (base.empty()) base = read_json(source / kAdapterConfig).value("base_model_name_or_path", std::string());
  if (!base.empty()) base = weights::find_model(base);
  if (fs::is_directory(base)) return base;
  throw Error("the adapter's base model, '" + base.string() + "', is not a folder", "name it with --base");
}

std::string export_merged(const ExportRequest& request, const fs::path& source) {
  const config::RunConfig settings = with_adapter({}, source);
  const fs::path base = find_base(request, source);
  const weights::ModelFolder model(base);
  refuse_inside(request.out, model.path());
  if (model.config().contains("quantization_config")) {
    throw Error(
        "the adapter's base model, " + base.string() + ", is quantized: nothing can be added to its codes",
        "read it back with `fathom quantize " + base.string() + " --format bf16 --out DIR`, and merge with --base DIR");
  }
  require_targets(source, model, settings);
  warn_of_other_base(source, model.path());
  const weights::SafetensorsFile adapter(source / kAdapterWeights);
  if (!settings.modules_to_save.empty()) {
    refuse_untied(source, arch::read_architecture(model));
  }
  const arch::LoraOptions lora{
      .r = settings.lora_r, .alpha = settings.lora_alpha, .rank_stabilised = settings.use_rslora};
  const LearnedWeights learned{model, &adapter, lora.scaling(lora.r)};
  const std::optional<quant::Scheme> scheme = learned_scheme(learned);
  const std::string told = write_whole_model(
      request, merged_sources(model, adapter, lora, vocabulary_of(adapter, source, model)), learned, scheme, source);
  return "the adapter of " + source.string() + " merged into " + base.string() + told;
}

// Of a name on the hub not even the cache is asked: whoever loads the adapter may download it.
std::string named_base(const fs::path& base) {
  if (!fs::is_directory(base) && !weights::is_hub_name(base.string())) {
    throw UsageError("--base " + base.string() + " is neither a folder nor the name of a model on the hub",
                     "name the base as a folder or as org/name");
  }
  return weights::lasting_name(base);
}

std::string export_adapter(const ExportRequest& request, const fs::path& source) {
  const weights::SafetensorsFile adapter(source / kAdapterWeights);
  if (request.gguf) {
    const weights::ModelFolder base(find_base(request, source), /*weights_required=*/false);
    return "the adapter of " + source.string() + " as GGUF, " +
           write_gguf_adapter(gguf_request(request), adapter, with_adapter({}, source), base);
  }
  std::vector<weights::TensorSource> tensors;
  for (const weights::TensorInfo& tensor : adapter.tensors()) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {}, adapter.data(tensor)});
  }
  Json settings = read_json(source / kAdapterConfig);
  if (!request.base.empty()) settings["base_model_name_or_path"] = named_base(request.base);
  StagedFolder folder(request.out, "the export", bytes_of(tensors));
  folder.add(kAdapterConfig, format_json(settings));
  folder.add_copies(source, tokenizer_files(source));
  folder.add_weights(kAdapterWeights, tensors);
  folder.publish();
  return "the adapter of " + source.string();
}

}  // namespace

std::string export_model(const ExportRequest& request) {
  const fs::path source = find_source(request.source);
  refuse_inside(request.out, source);
  if (fs::exists(source / kAdapterWeights)) {
    return request.merge ? export_merged(request, source) : export_adapter(request, source);
  }
  if (request.merge || !request.base.empty()) {
    throw UsageError(source.string() + " holds a whole model, no adapter", "leave out --merge and --base");
  }
  const weights::ModelFolder model(source);
  const LearnedWeights learned{model};
  const std::optional<quant::Scheme> scheme = learned_scheme(learned);
  return "the model of " + source.string() + write_whole_model(request, plain_sources(model), learned, scheme, source);
}

}  // namespace fathom::checkpoint
