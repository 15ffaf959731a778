// The list of a checkpoint's files with sizes and hashes: written last, checked first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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

// The processes that read a folder together, as one of them sees them.
class Readers {
 public:
  virtual ~Readers() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  // A text of each, by ranks: waits for as long as reading files takes, and throws where one is gone.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
};

// Of what is dealt to readers in turn, that of one of them: every step-th from the first on.
struct Share {
  int64_t first = 0, step = 1;
};
// readers null: there is one.
Share share_of(const Readers* readers);

// Reads the manifest and checks the size and hash of every file that it lists; throws Error that names what is wrong.
// readers: all of them call it with the same folder; each reads its part of every file, and all return or throw alike.
Manifest read_and_verify_manifest(const std::filesystem::path& folder, Readers* readers = nullptr);

// Calls `part`, which throws Error where this process finds something wrong in its part, and returns what it says. Of
// several readers all have the same: the texts of all by ranks, or an Error of the first that has found something.
std::vector<std::string> read_together(Readers* readers, const std::function<std::string()>& part);

}  // namespace fathom::weights
