// Descriptors over POSIX.
#include "base/descriptor.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace fathom {

Descriptor::Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(value_, other.value_);
  return *this;
}

void Descriptor::close() {
  if (value_ >= 0) ::close(std::exchange(value_, -1));
}

bool write_whole(const Descriptor& file, const void* data, size_t bytes) {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file.get(), next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    next += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

bool write_whole_at(const Descriptor& file, int64_t offset, const void* data, size_t bytes) {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::pwrite(file.get(), next, bytes, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    next += written;
    offset += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace fathom
