// Blocks of a fixed size, so that whoever has one can hash it alone.
#include "base/block_hash.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/rounding.h"

namespace fathom {

std::string to_text(const BlockHashes& hashes) {
  std::string text;
  for (const auto& [place, hash] : hashes) text.append(std::to_string(place)).append(" ").append(hash).append("\n");
  return text;
}

void add_from_text(const std::string& text, BlockHashes& hashes) {
  std::istringstream lines(text);
  int64_t place = 0;
  for (std::string hash; lines >> place >> hash;) hashes[place] = hash;
}

int64_t count_blocks(int64_t file_bytes) { return std::max<int64_t>(1, divide_up(file_bytes, kHashedBlock)); }

std::string hash_of_blocks(const BlockHashes& hashes, int64_t file_bytes) {
  const bool all = static_cast<int64_t>(hashes.size()) == count_blocks(file_bytes) && hashes.begin()->first == 0 &&
                   hashes.rbegin()->first + 1 == count_blocks(file_bytes) &&
                   std::none_of(hashes.begin(), hashes.end(), [](const auto& each) { return each.second.empty(); });
  if (!all) throw Error("the hashes of a file's blocks are not all there");
  if (hashes.size() == 1) return hashes.begin()->second;
  Hasher hasher;
  for (const auto& [place, hash] : hashes) hasher.update(hash.data(), hash.size());
  return hasher.digest();
}

void BlockHasher::add(int64_t offset, const void* data, int64_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const int64_t block = offset / kHashedBlock, end = std::min((block + 1) * kHashedBlock, file_bytes_);
    const int64_t count = std::min(bytes, end - offset);
    if (count <= 0) throw Error("bytes beyond the end of a file are to be hashed");
    if (offset % kHashedBlock == 0) {
      hasher_ = Hasher();
      hashes_[block] = "";
    } else if (offset != next_) {
      next_ = -1;
    }
    if (offset % kHashedBlock == 0 || next_ >= 0) {
      hasher_.update(from, static_cast<size_t>(count));
      next_ = offset + count;
      if (next_ == end) hashes_[block] = hasher_.digest();
    }
    offset += count;
    from += count;
    bytes -= count;
  }
}

BlockHashes hash_blocks(const std::byte* file, int64_t file_bytes, int64_t first, int64_t count) {
  BlockHashes hashes;
  for (int64_t block = first; block < first + count; ++block) {
    const int64_t begin = block * kHashedBlock, end = std::min(begin + kHashedBlock, file_bytes);
    hashes[block] = hash_bytes(file + begin, static_cast<size_t>(end - begin));
  }
  return hashes;
}

}  // namespace fathom
