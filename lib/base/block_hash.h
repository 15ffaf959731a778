// The hash of a file that several processes write or read, each its part: of blocks, and of the hashes of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/hash.h"

namespace fathom {

inline constexpr int64_t kHashedBlock = int64_t{8} << 20;  // bytes

// By their places among a file's blocks: XXH3-128.
using BlockHashes = std::map<int64_t, std::string>;

// "<place> <hash>", a line each, to be sent; and back, added to `hashes`.
std::string to_text(const BlockHashes& hashes);
void add_from_text(const std::string& text, BlockHashes& hashes);

// Of a file with no more than one block its own hash, else XXH3-128 of the hashes of all blocks, one behind the other
// as text. Throws Error unless it is given those of all blocks.
std::string hash_of_blocks(const BlockHashes& hashes, int64_t file_bytes);

// Hashes those blocks of a file that come to it whole and in order.
class BlockHasher {
 public:
  explicit BlockHasher(int64_t file_bytes) : file_bytes_(file_bytes) {}
  // Bytes from `offset` of the file on.
  void add(int64_t offset, const void* data, int64_t bytes);
  // Of every block whose first byte has come; empty where others were left out.
  const BlockHashes& hashes() const { return hashes_; }

 private:
  int64_t file_bytes_;
  int64_t next_ = -1;  // what the block goes on with; -1: it has a gap, or there is none
  Hasher hasher_;
  BlockHashes hashes_;
};

// Of the blocks [first, first + count).
BlockHashes hash_blocks(const std::byte* file, int64_t file_bytes, int64_t first, int64_t count);
int64_t count_blocks(int64_t file_bytes);

}  // namespace fathom
