// A file that appears whole or not at all: written beside its place, synced, then renamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace fathom::checkpoint {

class StagedFile {
 public:
  // what: for errors, "the export". Throws Error if something stands at `out`, or if its disk has no room for so many
  // bytes. Makes the folder that it lies in.
  StagedFile(const std::filesystem::path& out, const std::string& what, int64_t bytes);
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;
  ~StagedFile();  // removes what was not published

  const std::filesystem::path& path() const { return staging_; }  // where to write it
  void publish();

 private:
  std::filesystem::path out_, staging_;
};

}  // namespace fathom::checkpoint
