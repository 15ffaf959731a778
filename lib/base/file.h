// Files written whole or not at all, and files read by mapping. All errors name the path and the system's reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace fathom {

// The whole file; throws Error if it is missing, unreadable or larger than `limit` bytes.
std::string read_file(const std::filesystem::path& path, size_t limit = size_t{1} << 31);
// Writes a temporary file beside `path`, syncs it and renames it over `path`, then syncs the folder.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);
// Removes from a folder the temporary files of such writes whose processes were killed; this process must not be
// writing there. What cannot be read stays.
void remove_unfinished_writes(const std::filesystem::path& folder);
// Makes a folder and those above it, where they are not there. remedy: as an Error's.
void create_folders(const std::filesystem::path& folder, const std::string& remedy);
// fsync of a file or folder that was written by other means.
void sync_path(const std::filesystem::path& path);

// A file mapped read-only for the lifetime of the object. Movable, not copyable. An empty file maps to size 0.
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
