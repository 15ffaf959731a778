// A Hugging Face model folder: config.json and the weights of model.safetensors or of the shards that its index names.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "weights/safetensors.h"

namespace fathom::weights {

// A run folder with this file was played on a phantom GPU: its tensors are no one's weights.
inline constexpr char kPhantomMark[] = "phantom-run.txt";
// Names the files beside it that a script has written on one (phantom_gpu/agent/fathom_phantom/written.py), a line each
// behind two of words: bytes, nanoseconds of the last change, name.
inline constexpr char kPhantomFiles[] = "phantom-files.txt";
// True if the folder, or the one that holds it (a checkpoint's), bears the mark, or if a file of that list is still as
// it was written.
bool is_phantom(const std::filesystem::path& folder);
// Throws Error if it does.
void refuse_phantom(const std::filesystem::path& folder);

class ModelFolder {
 public:
  // Opens the folder, or the one that find_model (hub.h) has under this name; weights are mapped, not read. With
  // weights_required false a folder with only config.json will do, and so will a file that ends in .json and holds what
  // config.json would. Refuses with Error: a phantom's folder; no config.json; pickled weights (*.bin) only; an index
  // that names missing files or tensors, or files outside the folder. Of model.safetensors and an index the first
  // counts; of shards, the tensors in the index.
  explicit ModelFolder(const std::filesystem::path& path, bool weights_required = true);

  const std::filesystem::path& path() const { return path_; }
  const Json& config() const { return *config_; }                             // config.json
  const Json* generation_config() const { return generation_config_.get(); }  // generation_config.json; null: none
  bool has_weights() const { return !files_.empty(); }
  struct Entry {
    const TensorInfo* info;
    const SafetensorsFile* file;
    const std::byte* data() const { return file->data(*info); }
  };
  std::optional<Entry> find(const std::string& name) const;
  std::vector<std::string> names() const;  // of all tensors, sorted
  int64_t total_bytes() const;             // of all tensors

 private:
  std::filesystem::path path_;
  std::shared_ptr<Json> config_, generation_config_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Entry> entries_;
};

}  // namespace fathom::weights
