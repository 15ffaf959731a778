// A folder that appears whole or not at all: filled beside its place, synced, then renamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "weights/manifest.h"
#include "weights/safetensors.h"

namespace fathom::checkpoint {

// Bytes of all tensors' data. Throws Error where they leave int64.
int64_t bytes_of(const std::vector<weights::TensorSource>& tensors);
// "model-00001-of-00003.safetensors"; of one file "model.safetensors".
std::string shard_name(size_t index, size_t count);

// Throws Error where `out` lies in the folder of this model, or of the run that it is a checkpoint of: what lies there
// belongs to it, and transformers and the hub's cache look there.
void refuse_inside(const std::filesystem::path& out, const std::filesystem::path& model);

class StagedFolder {
 public:
  // what: for errors, "the export". Throws UsageError if `out` ends as names of files do, Error if `out` exists and is
  // not an empty folder, or if its disk has no room for so many bytes of weights and the files beside them.
  StagedFolder(const std::filesystem::path& out, const std::string& what, int64_t weight_bytes);
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;
  ~StagedFolder();  // removes what was not published

  const std::filesystem::path& path() const { return staging_; }
  void add(const std::string& name, std::string_view content);
  // Those of the files that the folder has and that are not here yet.
  void add_copies(const std::filesystem::path& folder, const std::vector<std::string>& names);
  // Throws Error for weights that are not all finite.
  void add_weights(const std::string& name, const std::vector<weights::TensorSource>& tensors);
  // A file that the caller wrote to path().
  void add_written(const std::string& name) { files_.push_back({name, 0, ""}); }
  void publish();

 private:
  std::filesystem::path out_, staging_;
  std::vector<weights::FileRecord> files_;
};

}  // namespace fathom::checkpoint
