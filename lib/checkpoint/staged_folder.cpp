// Stages a folder under a hidden name in its parent.
#include "checkpoint/staged_folder.h"

#include <algorithm>
#include <cstdio>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "checkpoint/disk_room.h"
#include "weights/companion.h"

namespace fathom::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNameAnother = "name another folder";
// "model.gguf" would become a folder of that name.
void refuse_name_of_file(const fs::path& out) {
  const std::string ending = out.extension().string();
  const std::string remedy =
      std::string("name a folder") + (ending == ".gguf" ? "; `fathom export --format gguf` makes such a file" : "");
  for (const char* of_file : {".gguf", ".safetensors", ".bin", ".pt", ".pth", ".onnx", ".zip", ".tar", ".gz"}) {
    if (ending == of_file) throw UsageError(out.string() + " is the name of a file, and a folder is made", remedy);
  }
}

constexpr int64_t kBesideWeights = 64 << 20;  // a tokenizer's files, at most

}  // namespace

int64_t bytes_of(const std::vector<weights::TensorSource>& tensors) {
  int64_t sum = 0;
  for (const weights::TensorSource& tensor : tensors) {
    int64_t bytes = size_of(tensor.dtype);
    for (const int64_t size : tensor.shape) bytes = checked_multiply(bytes, size, "size of tensor " + tensor.name);
    sum = checked_add(sum, bytes, "size of the model");
  }
  return sum;
}

std::string shard_name(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

void refuse_inside(const fs::path& out, const fs::path& model) {
  fs::path owner = tidy_path(fs::weakly_canonical(model));
  const bool is_checkpoint = owner.filename().string().starts_with("checkpoint-");
  if (is_checkpoint && fs::exists(owner.parent_path() / "config.yaml")) owner = owner.parent_path();
  const fs::path place = tidy_path(fs::weakly_canonical(out));
  const bool within = std::mismatch(owner.begin(), owner.end(), place.begin(), place.end()).first == owner.end();
  if (!within || place == owner) return;  // an existing folder is refused where it is made
  throw Error(place.string() + " lies in the folder of the model itself, " + owner.string(), "name a folder beside it");
}

StagedFolder::StagedFolder(const fs::path& out, const std::string& what, int64_t weight_bytes)
    : out_(tidy_path(fs::absolute(out))) {
  refuse_name_of_file(out_);
  if (fs::exists(out_) && (!fs::is_directory(out_) || !fs::is_empty(out_))) {
    throw Error(out_.string() + " exists", "name a folder that does not exist, or an empty one");
  }
  const fs::path parent = out_.parent_path();
  create_folders(parent, kNameAnother);
  staging_ = parent / std::string(".").append(out_.filename().string()).append(".partial");
  fs::remove_all(staging_);
  require_room(parent, what, checked_add(weight_bytes, kBesideWeights, "size of the model"));
  create_folders(staging_, kNameAnother);
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  fs::remove_all(staging_, ignored);
}

void StagedFolder::add(const std::string& name, std::string_view content) {
  files_.push_back(weights::write_new(staging_, name, content));
}

void StagedFolder::add_copies(const fs::path& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const bool there = !fs::exists(folder / name) || fs::exists(staging_ / name);
    if (!there) add(name, weights::read_companion(folder, name));
  }
}

void StagedFolder::add_weights(const std::string& name, const std::vector<weights::TensorSource>& tensors) {
  try {
    weights::write_safetensors(staging_ / name, tensors, weights::Numbers::kFinite);
  } catch (const weights::NotFinite& error) {
    throw Error((out_ / name).string() + ": " + error.what(), "export another checkpoint, or another adapter or base");
  }
  add_written(name);
}

void StagedFolder::publish() {
  weights::sync_files(staging_, files_);
  fs::remove(out_);  // absent, or empty
  fs::rename(staging_, out_);
  sync_path(out_.parent_path());
}

}  // namespace fathom::checkpoint
