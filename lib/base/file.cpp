// Files through the system calls, so that each failure names its path and reason and each write is durable.
#include "base/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/system_error.h"
#include "base/truncation.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_system_error(const char* action, const fs::path& path, int code) {
  throw system_error(std::string("cannot ") + action + " '" + path.string() + "'", code);
}

struct stat status_of(const Descriptor& file, const fs::path& path) {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) throw_system_error("inspect", path, errno);
  return status;
}

void refuse_irregular(const fs::path& path, mode_t mode, const char* remedy) {
  if (S_ISREG(mode)) return;
  const char* kind = S_ISDIR(mode)    ? "a folder"
                     : S_ISFIFO(mode) ? "a pipe"
                     : S_ISSOCK(mode) ? "a socket"
                     : S_ISLNK(mode)  ? "a link"
                                      : "a device";
  throw Error("'" + path.string() + "' is " + kind + ", not a file", remedy);
}

constexpr const char* kReplaced = "name a file to write, new or to be replaced";
constexpr std::string_view kStaging = ".tmp-";  // and the number of the process

// The process that wrote a temporary file of this name; nothing where the name is not one.
std::optional<pid_t> writer_of(const std::string& name) {
  const size_t at = name.rfind(kStaging);
  if (at == std::string::npos || at == 0) return std::nullopt;
  pid_t process = 0;
  const char* const end = name.data() + name.size();
  const auto [stopped, failed] = std::from_chars(name.data() + at + kStaging.size(), end, process);
  if (failed != std::errc() || stopped != end || process <= 0) return std::nullopt;
  return process;
}

bool is_another_that_runs(pid_t process) {
  return process != ::getpid() && (::kill(process, 0) == 0 || errno != ESRCH);
}

bool lock(const Descriptor& file) { return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0; }

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// path: of the file that was asked for, whatever the one is called that is written first.
[[noreturn]] void throw_unwritable(const char* action, const fs::path& path, int code) {
  std::error_code unknown;
  if (code != ENOENT || fs::exists(folder_of(path), unknown)) throw_system_error(action, path, code);
  throw Error("cannot " + std::string(action) + " '" + path.string() + "': there is no folder '" +
                  folder_of(path).string() + "'",
              "create it, or name a file in another");
}

}  // namespace

Descriptor open_to_read(const fs::path& path) {
  constexpr const char* kRemedy = "name a file, or put what comes from there into one first";
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) throw_system_error("open", path, errno);
  refuse_irregular(path, status.st_mode, kRemedy);
  // Should something else have taken its place, or a file of /proc wait for something: neither may hang.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) throw_system_error("open", path, errno);
  refuse_irregular(path, status_of(file, path).st_mode, kRemedy);
  return file;
}

Descriptor open_to_write(const fs::path& path, int flags) {
  refuse_to_replace(path);
  Descriptor file(::open(path.c_str(), flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666));
  if (!file.is_open()) throw_unwritable("write", path, errno);
  refuse_irregular(path, status_of(file, path).st_mode, kReplaced);
  return file;
}

Descriptor open_to_change(const fs::path& path) {
  refuse_to_replace(path);
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) throw_unwritable("write", path, errno);
  refuse_irregular(path, status_of(file, path).st_mode, kReplaced);
  return file;
}

std::string read_file(const fs::path& path, size_t limit) {
  const Descriptor file = open_to_read(path);
  const struct stat status = status_of(file, path);
  const auto throw_too_large = [&] {
    throw Error("'" + path.string() + "' is larger than " + format_bytes(static_cast<int64_t>(limit)),
                "is this the right file?");
  };
  if (static_cast<size_t>(status.st_size) > limit) throw_too_large();
  // The size is only a hint: files of /proc say 0, and a file may grow while it is read.
  std::string content;
  size_t used = 0;
  content.resize(static_cast<size_t>(status.st_size) + 1);
  while (true) {
    const ssize_t got = ::read(file.get(), content.data() + used, content.size() - used);
    if (got < 0) {
      if (errno == EINTR) continue;
      throw_system_error("read", path, errno);
    }
    if (got == 0) break;
    used += static_cast<size_t>(got);
    if (used > limit) throw_too_large();
    if (used == content.size()) content.resize(used + used / 2 + 4096);
  }
  content.resize(used);
  return content;
}

void refuse_to_replace(const fs::path& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) == 0) refuse_irregular(path, status.st_mode, kReplaced);
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  refuse_to_replace(path);
  const fs::path staging = path.string() + std::string(kStaging) + std::to_string(::getpid());
  ::unlink(staging.c_str());
  try {
    const Descriptor file(::open(staging.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.get() < 0) throw_unwritable("write", path, errno);
    lock(file);  // says on other machines, too, that somebody writes it
    if (!write_whole(file, content.data(), content.size())) throw_system_error("write", path, errno);
    if (::fsync(file.get()) != 0) throw_system_error("sync", path, errno);
    if (::rename(staging.c_str(), path.c_str()) != 0) throw_system_error("rename a new file to", path, errno);
  } catch (...) {
    ::unlink(staging.c_str());
    throw;
  }
  sync_path(folder_of(path));
}

void remove_unfinished_writes(const fs::path& folder) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const auto writer = writer_of(entry.path().filename().string());
    if (!writer || is_another_that_runs(*writer) || entry.symlink_status(failed).type() != fs::file_type::regular)
      continue;
    const Descriptor file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.is_open() && lock(file)) ::unlink(entry.path().c_str());
  }
}

void create_folders(const fs::path& folder, const std::string& remedy) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw Error("cannot create " + folder.string() + ": " + failed.message(), remedy);
}

void sync_path(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) throw_system_error("open", path, errno);
  if (::fsync(file.get()) != 0) throw_system_error("sync", path, errno);
}

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  const Descriptor file = open_to_read(path);
  size_ = static_cast<size_t>(status_of(file, path).st_size);
  if (size_ == 0) return;
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) throw_system_error("map", path, errno);
  data_ = static_cast<const std::byte*>(mapped);
  watch_for_truncation(data_, size_, path_.string());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::release(size_t first, size_t count) const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t start = (first + page - 1) / page * page, end = (first + count) / page * page;
  if (start < end) ::madvise(const_cast<std::byte*>(data_) + start, end - start, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  watch_no_longer(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace fathom
