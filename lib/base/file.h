// Regular files: read with a bound, mapped, written whole or not at all. All errors name the path and the reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/descriptor.h"

namespace fathom {

// Far above any file that people write and tools write for people: configs, descriptions, indices, templates.
inline constexpr size_t kLargestFile = size_t{16} << 20;

// The only way to open a file to read it. Throws Error for what is missing or cannot be read, and, without opening it,
// for what is no regular file and might never end or do things when it is read: folders, pipes, sockets, devices, and
// links to them.
Descriptor open_to_read(const std::filesystem::path& path);
// Opens a regular file to write into it, flags beside O_WRONLY or O_RDWR as open(2) has them, or makes it. Throws Error
// for anything else that is there, links included.
Descriptor open_to_write(const std::filesystem::path& path, int flags);
// Opens a regular file that is there, to change some of its bytes and read none: of pages that other machines write too
// a network file system then writes no more than these.
Descriptor open_to_change(const std::filesystem::path& path);

// The whole file, opened as above; throws Error if it is larger than `limit` bytes.
std::string read_file(const std::filesystem::path& path, size_t limit = kLargestFile);
// Throws Error where something stands at `path` that is no regular file: a folder, a device, a link, which a new file
// must not replace.
void refuse_to_replace(const std::filesystem::path& path);
// Writes a temporary file beside `path`, syncs it and renames it over `path`, where there is a regular file or none,
// then syncs the folder.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);
// Removes from a folder the temporary files of such writes whose processes were killed; this process must not be
// writing there. What cannot be read stays.
void remove_unfinished_writes(const std::filesystem::path& folder);
// Makes a folder and those above it, where they are not there. remedy: as an Error's.
void create_folders(const std::filesystem::path& folder, const std::string& remedy);
// fsync of a file or folder that was written by other means.
void sync_path(const std::filesystem::path& path);

// A file mapped read-only for the lifetime of the object. Movable, not copyable. An empty file maps to size 0. Where
// the file is truncated meanwhile and read beyond its new end, the process says so and ends with status 1.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }
  // The process's memory no longer counts the whole pages of bytes [first, first + count): they were read and will not
  // be needed soon. The bytes stay valid; a later access maps them again.
  void release(size_t first, size_t count) const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace fathom
