// Reads ahead by blocks and keeps what follows the last line feed for the next one.
#include "data/block_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/file.h"
#include "base/system_error.h"

namespace fathom::data {
namespace {

constexpr size_t kLongestLine = size_t{32} << 20;

}  // namespace

BlockReader::BlockReader(const std::filesystem::path& file, size_t block_bytes)
    : path_(file), block_bytes_(block_bytes) {
  file_ = open_to_read(file);
  struct stat status = {};
  if (::fstat(file_.get(), &status) == 0) file_bytes_ = static_cast<uint64_t>(status.st_size);
  ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
}

size_t BlockReader::fill(size_t bytes) {
  const size_t used = buffer_.size();
  buffer_.resize(used + bytes);
  size_t got = 0;
  while (got < bytes) {
    const ssize_t now = ::read(file_.get(), buffer_.data() + used + got, bytes - got);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) throw system_error("cannot read '" + path_.string() + "'", errno);
    if (now == 0) break;
    got += static_cast<size_t>(now);
  }
  buffer_.resize(used + got);
  return got;
}

std::string_view BlockReader::next() {
  buffer_.erase(0, given_);
  given_ = 0;
  while (true) {
    const bool more = fill(block_bytes_) == block_bytes_;
    // What was kept has no line feed, so that only the first line can be longer than a block.
    if (std::min(buffer_.find('\n'), buffer_.size()) > kLongestLine) {
      throw Error(path_.string() + ": has a line of more than 32 MiB",
                  buffer_.starts_with('{') ? "split its text into several lines, each an object of its own"
                                           : "is this a file of JSON lines?");
    }
    const size_t end = buffer_.rfind('\n');
    if (!more || end != std::string::npos) {
      given_ = more ? end + 1 : buffer_.size();
      return std::string_view(buffer_).substr(0, given_);
    }
  }
}

}  // namespace fathom::data
