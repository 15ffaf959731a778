// The table of remedies.
#include "base/system_error.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/bytes.h"

namespace fathom {
namespace {

// LibTorch ends its message with where it was thrown and the frames, which begin a line; others have none.
std::string without_backtrace(const std::string& message) {
  const std::string cut = message.substr(0, message.find("\nException raised from "));
  return cut.substr(0, cut.find("\nframe #0: "));
}

}  // namespace

std::string remedy_for(int code) {
  switch (code) {
    case ENOENT:
      return "check the path";
    case EACCES:
    case EPERM:
      return "check the permissions";
    case ELOOP:
      return "remove the link: it leads back to itself";
    case EROFS:
      return "choose a folder that can be written";
    case ENOSPC:
    case EDQUOT:
      return "free some space on that disk, or choose another";
    case EFBIG:
      return "the size of files is limited here: raise the limit (ulimit -f)";
    case EMFILE:
    case ENFILE:
      return "raise the number of files that may be open (ulimit -n)";
    case ENOMEM: {
      const std::string space = describe_address_space();
      return space.empty() ? "free some memory" : space;
    }
    case EAGAIN: {  // of a thread or a process that cannot start
      const std::string space = describe_address_space();
      return "raise the number of processes and threads (ulimit -u, or pids.max of the cgroup)" +
             (space.empty() ? "" : ", or what follows: " + space);
    }
    default:
      return "";
  }
}

Error system_error(const std::string& what, int code) {
  return Error(what + ": " + std::strerror(code), remedy_for(code));
}

std::string message_of(const std::exception& error) {
  const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  if (file == nullptr) return without_backtrace(error.what());
  std::string paths = file->path1().string();
  if (!file->path2().empty()) paths += " and " + file->path2().string();
  return (paths.empty() ? "" : paths + ": ") + file->code().message();
}

std::optional<int64_t> address_space_bytes() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int64_t>::max()));
}

std::string describe_address_space() {
  const auto bytes = address_space_bytes();
  if (!bytes) return "";
  return "this process's address space is limited to " + format_bytes(*bytes) + ", and fathom sets " +
         format_bytes(kAddressSpaceBesideTensors) +
         " of it aside for libraries and reserved room, beside the memory that is planned: raise that limit (ulimit "
         "-v), and bound memory by memory_budget or a cgroup";
}

}  // namespace fathom
