// Tries the folder; what stands at the path itself stays as it is.
#include "base/writable.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/system_error.h"

namespace fathom {

void require_writable(const std::filesystem::path& path) {
  refuse_to_replace(path);
  const std::filesystem::path trial = path.string() + ".tmp-" + std::to_string(::getpid());
  const Descriptor opened = open_to_write(trial, O_WRONLY);
  if (::unlink(trial.c_str()) != 0) throw system_error("cannot remove '" + trial.string() + "'", errno);
}

}  // namespace fathom
