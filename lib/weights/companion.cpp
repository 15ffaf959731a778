// Compares places after all links have been followed.
#include "weights/companion.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace fathom::weights {
namespace {

namespace fs = std::filesystem;

bool is_blob_of_the_hub(const fs::path& file) {
  const fs::path blobs = file.parent_path();
  return blobs.filename() == "blobs" && blobs.parent_path().filename().string().starts_with("models--");
}

fs::path place_of(const fs::path& folder, const std::string& name) {
  const fs::path path = folder / name;
  std::error_code absent;
  const fs::path home = fs::canonical(folder, absent), file = fs::canonical(path, absent);
  if (absent) return path;  // the reader says why
  const bool inside = std::mismatch(home.begin(), home.end(), file.begin(), file.end()).first == home.end();
  if (inside || is_blob_of_the_hub(file)) return path;
  throw Error(
      "'" + path.string() + "' leads out of its folder, to '" + file.string() + "', and is not copied from there",
      "put the file itself into the folder if it is meant, or remove the link");
}

}  // namespace

std::string read_companion(const fs::path& folder, const std::string& name) {
  return read_file(place_of(folder, name), kLargestCompanion);
}

TensorSource copy_of(const ModelFolder::Entry& entry) {
  TensorSource source{entry.info->name, entry.info->dtype, entry.info->shape};
  source.parts = [entry](const TensorSource::Sink& sink) {
    if (sink.wants && !sink.wants(0, entry.info->bytes)) return;
    sink.take(0, entry.data(), entry.info->bytes);
    entry.file->release(*entry.info);
  };
  return source;
}

int64_t companion_bytes(const fs::path& folder, const std::string& name) {
  const fs::path path = place_of(folder, name);
  open_to_read(path);
  return static_cast<int64_t>(fs::file_size(path));
}

}  // namespace fathom::weights
