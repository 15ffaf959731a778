// The check that a checkpoint keeps tells the log that it knew from another of the same length.
#include "report/run_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/numbers.h"
#include "base/system_error.h"

namespace fathom::report {
namespace {

namespace fs = std::filesystem;

std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = remainder % 2 == 1 ? remainder >> 1 ^ 0x82f63b78u : remainder >> 1;
    table[byte] = remainder;
  }
  return table;
}

Descriptor opened(const fs::path& path) { return open_to_write(path, O_RDWR | O_APPEND); }

// TensorBoard reads what has "tfevents" in its name.
fs::path free_name(const fs::path& path) {
  std::string name = "abandoned-" + path.filename().string();
  constexpr std::string_view kRead = "tfevents";
  if (const size_t at = name.find(kRead); at != std::string::npos) name.replace(at, kRead.size(), "earlier");
  fs::path found = path.parent_path() / name;
  for (int i = 2; fs::exists(fs::symlink_status(found)); ++i) {
    found = path.parent_path() / (name + "." + std::to_string(i));
  }
  return found;
}

}  // namespace

uint32_t crc32c(std::string_view bytes, uint32_t before) {
  static const std::array<uint32_t, 256> table = crc_table();
  uint32_t remainder = ~before;
  for (const char byte : bytes) remainder = remainder >> 8 ^ table[(remainder ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~remainder;
}

RunLog::RunLog(fs::path path, const LogMark& kept) : path_(std::move(path)), file_(opened(path_)) {
  if (!holds(kept)) begin_anew(kept);
  if (::ftruncate(file_.get(), mark_.bytes) != 0) {
    throw system_error(path_.string() + ": cannot be cut to its length at the checkpoint", errno);
  }
}

// Whether the file begins with these bytes; then they are its mark.
bool RunLog::holds(const LogMark& kept) {
  std::string piece(static_cast<size_t>(std::min<int64_t>(kept.bytes, kMiB)), '\0');
  LogMark found{0, 0};
  while (found.bytes < kept.bytes) {
    const auto wanted = static_cast<size_t>(std::min<int64_t>(kept.bytes - found.bytes, std::ssize(piece)));
    const ssize_t got = ::pread(file_.get(), piece.data(), wanted, found.bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    found.check = crc32c({piece.data(), static_cast<size_t>(got)}, *found.check);
    found.bytes += got;
  }
  if (kept.check && kept.check != found.check) return false;
  mark_ = found;
  return true;
}

void RunLog::begin_anew(const LogMark& kept) {
  mark_ = {0, 0};
  const std::string knew = "the checkpoint was saved when it had " + format_count(kept.bytes) + " bytes";
  std::error_code unknown;
  if (fs::file_size(path_, unknown) == 0) {
    log_warning(path_.string() + " is not there, and " + knew + ": the log begins anew");
    return;
  }
  const fs::path other = free_name(path_);
  fs::rename(path_, other);
  file_ = opened(path_);
  log_warning(path_.string() + " is not that of the run, and " + knew + ": it is now " + other.string() +
              ", and the log begins anew");
}

void RunLog::append(std::string_view entry) {
  if (const std::string why = try_append(entry); !why.empty()) lose(why);
}

void RunLog::begin_with(std::string_view entry) {
  if (const std::string why = try_append(entry); !why.empty()) throw Error(path_.string() + ": " + why);
}

std::string RunLog::try_append(std::string_view entry) {
  if (!is_there()) return "was removed while the run wrote it";
  const bool whole = !torn_ || ::ftruncate(file_.get(), mark_.bytes) == 0;
  torn_ = !whole || !write_whole(file_, entry.data(), entry.size());
  if (torn_) return std::string("cannot be written: ") + std::strerror(errno);
  mark_.bytes += std::ssize(entry);
  mark_.check = crc32c(entry, *mark_.check);
  return "";
}

void RunLog::sync() {
  if (::fsync(file_.get()) != 0) lose(std::string("cannot be put on the disk: ") + std::strerror(errno));
}

bool RunLog::is_there() const {
  struct stat status = {};
  return ::fstat(file_.get(), &status) != 0 || status.st_nlink > 0;
}

void RunLog::lose(const std::string& why) {
  const std::lock_guard lock(failing_);
  if (losses_++ > 0) return;
  first_loss_ = path_.string() + ": " + why;
  log_error(first_loss_ + "; training goes on");
}

std::string RunLog::failure() const {
  const std::lock_guard lock(failing_);
  if (losses_ <= 1) return first_loss_;
  return first_loss_ + ", and " + format_counted(losses_ - 1, "time") + " more";
}

}  // namespace fathom::report
