// Opens a Hugging Face model folder: config.json, then model.safetensors or the shards of its index.
#include "weights/folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "base/path.h"
#include "weights/hub.h"

namespace fathom::weights {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

// Names of files come from the index, which is not trusted: nothing but a plain name inside the folder passes.
void check_plain_name(const std::string& file, const std::string& origin) {
  const bool plain = !file.empty() && file != "." && file != ".." && file.find('/') == std::string::npos &&
                     file.find('\\') == std::string::npos && file.find('\0') == std::string::npos;
  if (!plain) throw Error(origin + ": weight_map names '" + file + "', which is not a plain file name in this folder");
}

[[noreturn]] void refuse_entry(const std::filesystem::path& index, const std::string& tensor, const std::string& why) {
  throw Error(index.string() + ": tensor '" + tensor + "' " + why,
              "the index and its shards do not belong together: download the folder again");
}

// Tensor name -> file name.
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const Json index = read_json(path);
  const std::string origin = path.string();
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    throw Error(origin + ": expected an object with an object 'weight_map'");
  }
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string()) refuse_entry(path, name, "does not name a file");
    check_plain_name(file.get<std::string>(), origin);
    files[name] = file.get<std::string>();
  }
  return files;
}

bool holds_pickled_weights(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".bin" || extension == ".pt" || extension == ".pth") return true;
  }
  return false;
}

bool holds_a_phantoms_file(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / kPhantomFiles)) return false;
  std::istringstream list(read_file(folder / kPhantomFiles));
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    int64_t bytes = 0, changed = 0;
    std::string name;
    struct stat status {};
    if (!(words >> bytes >> changed >> std::ws) || !std::getline(words, name)) continue;
    if (::stat((folder / name).c_str(), &status) != 0 || status.st_size != bytes) continue;
    if (int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec == changed) return true;
  }
  return false;
}

}  // namespace

bool is_phantom(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / kPhantomMark) ||
         std::filesystem::exists(tidy_path(folder).parent_path() / kPhantomMark) || holds_a_phantoms_file(folder);
}

void refuse_phantom(const std::filesystem::path& folder) {
  if (!is_phantom(folder)) return;
  throw Error(folder.string() + ": belongs to a run that was played on a phantom GPU; its weights are not real",
              "train on a real device to make a model");
}

ModelFolder::ModelFolder(const std::filesystem::path& path, bool weights_required) : path_(find_model(path)) {
  if (!weights_required && path_.extension() == ".json" && std::filesystem::is_regular_file(path_)) {
    config_ = std::make_shared<Json>(read_json(path_));
    return;
  }
  refuse_phantom(path_);
  if (!std::filesystem::is_directory(path_)) {
    throw Error(path_.string() + ": not a folder", "give the path of a model folder in Hugging Face's layout");
  }
  if (!std::filesystem::exists(path_ / "config.json") && std::filesystem::exists(path_ / "adapter_config.json")) {
    throw Error(path_.string() + ": holds an adapter, not a model", "name its base model");
  }
  if (!std::filesystem::exists(path_ / "config.json")) {
    throw Error(path_.string() + ": holds no config.json", "give the path of a model folder in Hugging Face's layout");
  }
  config_ = std::make_shared<Json>(read_json(path_ / "config.json"));
  if (std::filesystem::exists(path_ / "generation_config.json")) {
    generation_config_ = std::make_shared<Json>(read_json(path_ / "generation_config.json"));
  }

  if (std::filesystem::exists(path_ / kSingleFile)) {
    files_.push_back(std::make_unique<SafetensorsFile>(path_ / kSingleFile));
    for (const TensorInfo& info : files_[0]->tensors()) entries_[info.name] = {&info, files_[0].get()};
  } else if (std::filesystem::exists(path_ / kIndexFile)) {
    std::map<std::string, const SafetensorsFile*> opened;
    for (const auto& [name, file] : read_index(path_ / kIndexFile)) {
      const SafetensorsFile*& shard = opened[file];
      if (shard == nullptr) {
        files_.push_back(std::make_unique<SafetensorsFile>(path_ / file));
        shard = files_.back().get();
      }
      const TensorInfo* info = shard->find(name);
      if (info == nullptr) {
        refuse_entry(path_ / kIndexFile, name, "is not in " + file);
      }
      entries_[name] = {info, shard};
    }
  } else if (weights_required) {
    if (holds_pickled_weights(path_)) {
      throw Error(path_.string() + ": holds pickled weights only, which can run code when read",
                  "convert them to safetensors (transformers: save_pretrained)");
    }
    throw Error(path_.string() + ": holds neither " + kSingleFile + " nor " + kIndexFile,
                "download the weights, or set random_init: true to train from config.json alone");
  }
  // transformers 5 writes of every T5 that its head is the embedding: that one is not scaled says that it may have its
  // own, and the weights whether it has.
  const auto scaled = config_->find("scale_decoder_outputs");
  if (scaled != config_->end() && *scaled == false && find("lm_head.weight")) (*config_)["tie_word_embeddings"] = false;
}

std::optional<ModelFolder::Entry> ModelFolder::find(const std::string& name) const {
  auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::string> ModelFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

int64_t ModelFolder::total_bytes() const {
  int64_t total = 0;
  for (const auto& [name, entry] : entries_) total = checked_add(total, entry.info->bytes, path_.string());
  return total;
}

}  // namespace fathom::weights
