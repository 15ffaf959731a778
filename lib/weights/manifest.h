// The list of a checkpoint's files with sizes and hashes: written last, checked first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::weights {

struct FileRecord {
  std::string name;  // within the folder; may lie in a folder of its own there
  int64_t bytes = 0;
  std::string hash;  // of its blocks (base/block_hash.h), 32 hexadecimal digits
};

// Writes a new file, without staging or sync: for folders that nobody reads yet.
FileRecord write_new(const std::filesystem::path& folder, const std::string& name, std::string_view content);

// Puts all of them and the folder's names for them on the disk.
void sync_files(const std::filesystem::path& folder, const std::vector<FileRecord>& files);

// Syncs the files, then writes and syncs the list of them.
void write_manifest(const std::filesystem::path& folder, int64_t step, const std::vector<FileRecord>& files);

struct Manifest {
  int64_t step = 0;
  std::vector<FileRecord> files;
  bool lists(const std::string& name) const;
};
// Reads the manifest and checks the size and hash of every file that it lists; throws Error that names what is wrong.
Manifest read_and_verify_manifest(const std::filesystem::path& folder);

}  // namespace fathom::weights
