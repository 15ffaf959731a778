// Asks the file system how much is free.
#include "checkpoint/disk_room.h"

#include <sys/statvfs.h>

#include <cerrno>

#include "base/bytes.h"
#include "base/error.h"
#include "base/system_error.h"

namespace fathom::checkpoint {
namespace {

constexpr int64_t kBesideTensors = 256 * kKiB;  // a checkpoint's manifest and state, and blocks that files do not fill

std::string both_units(int64_t bytes) { return format_count(bytes) + " bytes (" + format_bytes(bytes) + ")"; }

}  // namespace

int64_t checkpoint_bytes(const NamedTensors& parameters, const NamedTensors& optimizer, const ModelFiles& files) {
  const int64_t states = weights::safetensors_bytes(tensor_sources(optimizer));
  const int64_t tensors = checked_add(model_bytes(parameters, files), states, "size of a checkpoint");
  return checked_add(tensors, kBesideTensors, "size of a checkpoint");
}

int64_t free_bytes(const std::filesystem::path& folder) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) {
    throw system_error("cannot ask how much is free on the disk of " + folder.string(), errno);
  }
  if (disk.f_blocks == 0 || disk.f_frsize == 0) return INT64_MAX;  // some network file systems count nothing
  return disk.f_bavail > INT64_MAX / disk.f_frsize ? INT64_MAX : static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
}

void require_room(const std::filesystem::path& folder, const std::string& what, int64_t bytes) {
  const int64_t free = free_bytes(folder);
  if (free >= bytes) return;
  throw Error("no room for " + what + ": it takes up to " + both_units(bytes) + ", and the disk of " + folder.string() +
                  " has " + both_units(free) + " free",
              "free some space there, or choose another output_dir; checkpoints that are whole stay as they are");
}

}  // namespace fathom::checkpoint
