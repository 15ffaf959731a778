// Memory from the system that is kept after release: reserves address space in segments, hands out the best-fitting
// free block, splits and merges, and tells the system to take pages back when more is kept than `trim` allows. Not
// thread-safe.
//
// Pages that a process touches for the first time cost more than the arithmetic on them, and a training step takes and
// gives back the same sizes again and again; so what was touched once is used again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fathom::memory {

// Bytes that the CPU allocator has out and keeps for reuse, together, at most, once it has had largest_use bytes out.
constexpr size_t most_kept_and_used(size_t largest_use) { return largest_use + largest_use / 8 + (size_t{64} << 20); }

class MemoryPool {
 public:
  static constexpr size_t kAlignment = 64;

  // segment_bytes: address space reserved at a time (a larger request gets its own). Both are rounded to huge pages.
  // split_bytes: a remainder smaller than this stays with its block. huge_pages: ask the system for them.
  MemoryPool(size_t segment_bytes, size_t split_bytes, bool huge_pages);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // At least `bytes` (> 0) aligned to kAlignment; null if the system gives no address space.
  void* take(size_t bytes);
  void give_back(void* data);
  // What `take` was asked for. `data` may come from any pool.
  static size_t requested_bytes(const void* data);
  // Which pool gave it.
  static MemoryPool* owner(const void* data);

  size_t used_bytes() const { return used_bytes_; }  // blocks that are out, with their headers
  size_t kept_bytes() const { return kept_bytes_; }  // free memory that may be resident
  // Gives pages back to the system, from the largest free block on, until at most `keep_bytes` are kept.
  // Blocks smaller than a huge page are not worth the call.
  void trim(size_t keep_bytes);
  // Throws std::logic_error if the lists, the neighbours and the sums do not agree (for tests).
  void check() const;

 private:
  struct Header;
  static constexpr int kSteps = 8;  // bins per power of two
  static constexpr int kBins = 48 * kSteps;

  static int bin_of(size_t size);
  Header* add_segment(size_t size);
  Header* find_fit(size_t size) const;
  void insert(Header* block);
  void remove(Header* block);
  void split(Header* block, size_t size);
  Header* merge_with_next(Header* block);

  size_t segment_bytes_, split_bytes_;
  bool huge_pages_;
  size_t used_bytes_ = 0, kept_bytes_ = 0;
  std::array<Header*, kBins> free_{};
  std::array<uint64_t, kBins / 64> occupied_{};  // one bit per bin
  struct Segment;
  Segment* segments_ = nullptr;
};

}  // namespace fathom::memory
