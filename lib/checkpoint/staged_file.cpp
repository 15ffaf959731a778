// Stages a file under a hidden name in its folder.
#include "checkpoint/staged_file.h"

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "checkpoint/disk_room.h"

namespace fathom::checkpoint {

namespace fs = std::filesystem;

StagedFile::StagedFile(const fs::path& out, const std::string& what, int64_t bytes)
    : out_(tidy_path(fs::absolute(out))) {
  constexpr const char* kNameAnother = "name another file";
  if (fs::exists(fs::symlink_status(out_))) throw Error(out_.string() + " exists", kNameAnother);
  const fs::path folder = out_.parent_path();
  create_folders(folder, kNameAnother);
  require_room(folder, what, bytes);
  staging_ = folder / std::string(".").append(out_.filename().string()).append(".partial");
  fs::remove(staging_);
}

StagedFile::~StagedFile() {
  std::error_code ignored;
  fs::remove(staging_, ignored);
}

void StagedFile::publish() {
  sync_path(staging_);
  fs::rename(staging_, out_);
  sync_path(out_.parent_path());
}

}  // namespace fathom::checkpoint
