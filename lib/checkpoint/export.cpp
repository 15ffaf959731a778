// Gathers the files of an export in a staging folder and renames it.
#include "checkpoint/export.h"

#include <cmath>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/path.h"
#include "checkpoint/adapter.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/disk_room.h"
#include "checkpoint/manifest.h"
#include "checkpoint/merge.h"
#include "checkpoint/model_files.h"
#include "tokenizer/tokenizer.h"
#include "weights/folder.h"
#include "weights/hub.h"

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
    if (fs::exists(source / "manifest.json")) read_and_verify_manifest(source);
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

int64_t bytes_of(const weights::TensorSource& tensor) {
  int64_t bytes = size_of(tensor.dtype);
  for (const int64_t size : tensor.shape) bytes = checked_multiply(bytes, size, "size of tensor " + tensor.name);
  return bytes;
}

int64_t bytes_of(const std::vector<weights::TensorSource>& tensors) {
  int64_t bytes = 0;
  for (const weights::TensorSource& tensor : tensors) bytes = checked_add(bytes, bytes_of(tensor), "size of the model");
  return bytes;
}

// In the order given, each with as many tensors as fit; a tensor that is larger has a shard of its own.
std::vector<std::vector<weights::TensorSource>> divide(const std::vector<weights::TensorSource>& tensors,
                                                       int64_t shard_bytes) {
  std::vector<std::vector<weights::TensorSource>> shards(1);
  int64_t used = 0;
  for (const weights::TensorSource& tensor : tensors) {
    const int64_t bytes = bytes_of(tensor);
    if (used > 0 && used + bytes > shard_bytes) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(tensor);
    used += bytes;
  }
  return shards;
}

std::string shard_name(size_t index, size_t count) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

// What an export's folder is filled with.
class Folder {
 public:
  Folder(const fs::path& out, int64_t bytes) : out_(tidy_path(fs::absolute(out))) {
    if (fs::exists(out_) && (!fs::is_directory(out_) || !fs::is_empty(out_))) {
      throw Error(out_.string() + " exists", "name a folder that does not exist, or an empty one");
    }
    const fs::path parent = out_.parent_path();
    fs::create_directories(parent);
    staging_ = parent / std::string(".").append(out_.filename().string()).append(".partial");
    fs::remove_all(staging_);
    require_room(parent, "the export", bytes);
    fs::create_directory(staging_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(staging_, ignored);
  }

  void add(const std::string& name, std::string_view content) { files_.push_back(write_new(staging_, name, content)); }
  void add_copies(const fs::path& folder, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const bool there = !fs::exists(folder / name) || fs::exists(staging_ / name);
      if (!there) add(name, read_file(folder / name));
    }
  }
  void add_weights(const std::string& name, const std::vector<weights::TensorSource>& tensors) {
    weights::write_safetensors(staging_ / name, tensors);
    files_.push_back({name, 0, ""});
  }
  void add_model_weights(const std::vector<weights::TensorSource>& tensors, int64_t shard_bytes) {
    const auto shards = divide(tensors, shard_bytes);
    if (shards.size() == 1) return add_weights("model.safetensors", tensors);
    Json index = {{"metadata", {{"total_size", bytes_of(tensors)}}}, {"weight_map", Json::object()}};
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string name = shard_name(i, shards.size());
      for (const weights::TensorSource& tensor : shards[i]) index["weight_map"][tensor.name] = name;
      add_weights(name, shards[i]);
    }
    add("model.safetensors.index.json", format_json(index));
  }
  void publish() {
    sync_files(staging_, files_);
    fs::remove(out_);  // absent, or empty
    fs::rename(staging_, out_);
    sync_path(out_.parent_path());
  }

 private:
  fs::path out_, staging_;
  std::vector<FileRecord> files_;
};

constexpr int64_t kBesideWeights = 64 << 20;  // a tokenizer's files, at most

void write_whole_model(const ExportRequest& request, const std::vector<weights::TensorSource>& tensors,
                       const weights::ModelFolder& model, const fs::path& trained) {
  Folder folder(request.out, checked_add(bytes_of(tensors), kBesideWeights, "size of the model"));
  Json config = config_as_stored(model.config(), tensors.front().dtype);
  for (const weights::TensorSource& tensor : tensors) {
    if (tensor.name == "model.embed_tokens.weight") config["vocab_size"] = tensor.shape.front();
  }
  folder.add("config.json", format_json(config));
  folder.add_copies(trained, tokenizer_files(trained));
  folder.add_copies(model.path(), {"generation_config.json"});
  folder.add_copies(model.path(), tokenizer_files(model.path()));
  folder.add_model_weights(tensors, request.shard_bytes);
  folder.publish();
}

// Rows of embedding and head in training: those that the adapter brings, else one for each token at least.
int64_t vocabulary_of(const weights::SafetensorsFile& adapter, const fs::path& trained,
                      const weights::ModelFolder& base) {
  if (const auto saved = saved_vocabulary(adapter)) return *saved;
  const auto embedding = base.find("model.embed_tokens.weight");
  if (!embedding || embedding->info->shape.empty()) return 0;
  const int64_t stored = embedding->info->shape[0];
  for (const fs::path& folder : {trained, base.path()}) {
    if (!fs::exists(folder / "tokenizer.model") && !fs::exists(folder / "tokenizer.json")) continue;
    return std::max(stored, tokenizer::Tokenizer::open(folder)->vocabulary_size());
  }
  return stored;
}

std::string export_merged(const ExportRequest& request, const fs::path& source) {
  const config::RunConfig settings = with_adapter({}, source);
  fs::path base = request.base;
  if (base.empty()) base = read_json(source / kAdapterConfig).value("base_model_name_or_path", std::string());
  if (!base.empty()) base = weights::find_model(base);
  if (!fs::is_directory(base)) {
    throw Error("the adapter's base model, '" + base.string() + "', is not a folder", "name it with --base");
  }
  const weights::ModelFolder model(base);
  const weights::SafetensorsFile adapter(source / kAdapterWeights);
  if (!settings.modules_to_save.empty()) {
    refuse_untied(source, model::parse_model_shape(model.config(), (base / "config.json").string()));
  }
  const auto rank = static_cast<double>(settings.lora_r);
  const double scaling = settings.lora_alpha / (settings.use_rslora ? std::sqrt(rank) : rank);
  write_whole_model(request, merged_sources(model, adapter, scaling, vocabulary_of(adapter, source, model)), model,
                    source);
  return "the adapter of " + source.string() + " merged into " + base.string();
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
  std::vector<weights::TensorSource> tensors;
  int64_t bytes = kBesideWeights;
  for (const weights::TensorInfo& tensor : adapter.tensors()) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {}, adapter.data(tensor)});
    bytes += tensor.bytes;
  }
  Json settings = read_json(source / kAdapterConfig);
  if (!request.base.empty()) settings["base_model_name_or_path"] = named_base(request.base);
  Folder folder(request.out, bytes);
  folder.add(kAdapterConfig, format_json(settings));
  folder.add_copies(source, tokenizer_files(source));
  folder.add_weights(kAdapterWeights, tensors);
  folder.publish();
  return "the adapter of " + source.string();
}

}  // namespace

std::string export_model(const ExportRequest& request) {
  const fs::path source = find_source(request.source);
  if (fs::exists(source / kAdapterWeights)) {
    return request.merge ? export_merged(request, source) : export_adapter(request, source);
  }
  if (request.merge || !request.base.empty()) {
    throw UsageError(source.string() + " holds a whole model, no adapter", "leave out --merge and --base");
  }
  const weights::ModelFolder model(source);
  write_whole_model(request, plain_sources(model), model, source);
  return "the model of " + source.string();
}

}  // namespace fathom::checkpoint
