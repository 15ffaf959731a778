// A file of lines in blocks of whole lines, so that memory does not grow with the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/descriptor.h"

namespace fathom::data {

class BlockReader {
 public:
  // block_bytes: how much is read at once; a longer line makes its block longer, up to 32 MiB.
  explicit BlockReader(const std::filesystem::path& file, size_t block_bytes = size_t{8} << 20);
  // The next lines, the last of which may lack its line feed; empty at the end. Holds until the next call. Throws
  // Error.
  std::string_view next();
  uint64_t file_bytes() const { return file_bytes_; }

 private:
  size_t fill(size_t bytes);  // how many came

  std::filesystem::path path_;
  Descriptor file_;
  uint64_t file_bytes_ = 0;
  size_t block_bytes_;
  std::string buffer_;
  size_t given_ = 0;  // bytes of the buffer that the last block had
};

}  // namespace fathom::data
