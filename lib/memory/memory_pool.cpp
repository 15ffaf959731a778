// Free blocks in bins of nearly equal size; neighbours found through the header in front of every block.
#include "memory/memory_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace fathom::memory {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = 4096;
constexpr int kSearchLength = 32;  // how many blocks of one bin are compared

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

}  // namespace

struct alignas(MemoryPool::kAlignment) MemoryPool::Header {
  size_t size;       // of the whole block, this header included
  Header* previous;  // the neighbour in front; null at the start of a segment
  MemoryPool* pool;
  size_t requested;  // bytes that the user asked for
  size_t touched;    // of a free block: bytes that may be resident, counted from its front
  Header* next_free;
  Header* previous_free;
  bool free;
  bool last;  // of its segment
};

struct MemoryPool::Segment {
  Segment* next;
  void* base;
  size_t size;
  Header* first;
};

MemoryPool::MemoryPool(size_t segment_bytes, size_t split_bytes, bool huge_pages)
    : segment_bytes_(round_up(segment_bytes, kHugePage)), split_bytes_(split_bytes), huge_pages_(huge_pages) {}

MemoryPool::~MemoryPool() {
  while (Segment* segment = segments_) {
    segments_ = segment->next;
    munmap(segment->base, segment->size);
    delete segment;
  }
}

int MemoryPool::bin_of(size_t size) {
  int exponent = static_cast<int>(std::bit_width(size)) - 1;  // a size is at least two headers: 2^7
  int step = static_cast<int>(size >> (exponent - 3)) & (kSteps - 1);
  return std::min(exponent * kSteps + step, kBins - 1);
}

MemoryPool::Header* MemoryPool::add_segment(size_t size) {
  size = std::max(segment_bytes_, round_up(size, kHugePage));
  size_t reserved = size + kHugePage;  // one page more, to start at the boundary of one
  void* base = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  auto start = reinterpret_cast<Header*>(round_up(reinterpret_cast<uintptr_t>(base), kHugePage));
  if (huge_pages_) madvise(start, size, MADV_HUGEPAGE);  // advice: nothing depends on its being taken
  *start = {.size = size,
            .previous = nullptr,
            .pool = this,
            .requested = 0,
            .touched = 0,
            .next_free = nullptr,
            .previous_free = nullptr,
            .free = true,
            .last = true};
  segments_ = new Segment{segments_, base, reserved, start};
  insert(start);
  return start;
}

void MemoryPool::insert(Header* block) {
  int bin = bin_of(block->size);
  block->free = true;
  block->previous_free = nullptr;
  block->next_free = free_[bin];
  if (free_[bin]) free_[bin]->previous_free = block;
  free_[bin] = block;
  occupied_[bin / 64] |= uint64_t{1} << (bin % 64);
  kept_bytes_ += block->touched;
}

void MemoryPool::remove(Header* block) {
  int bin = bin_of(block->size);
  if (block->previous_free) block->previous_free->next_free = block->next_free;
  if (block->next_free) block->next_free->previous_free = block->previous_free;
  if (free_[bin] == block) free_[bin] = block->next_free;
  if (!free_[bin]) occupied_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
  block->free = false;
  kept_bytes_ -= block->touched;
}

// The smallest block that is large enough, of equal ones the lowest: that keeps the upper end of a segment free.
MemoryPool::Header* MemoryPool::find_fit(size_t size) const {
  for (int bin = bin_of(size); bin < kBins; bin++) {
    uint64_t word = occupied_[bin / 64] >> (bin % 64);
    if (!word) {
      bin = bin / 64 * 64 + 63;
      continue;
    }
    bin += std::countr_zero(word);
    Header* best = nullptr;
    int seen = 0;
    for (Header* block = free_[bin]; block && seen < kSearchLength; block = block->next_free, seen++) {
      if (block->size < size) continue;
      if (!best || block->size < best->size || (block->size == best->size && block < best)) best = block;
    }
    if (best) return best;
  }
  return nullptr;
}

// Cuts `block`, which is in no list, down to `size`; the rest becomes a free block.
void MemoryPool::split(Header* block, size_t size) {
  size_t rest_size = block->size - size;
  if (rest_size < std::max(split_bytes_, 2 * sizeof(Header))) return;
  auto rest = reinterpret_cast<Header*>(reinterpret_cast<char*>(block) + size);
  size_t touched = block->touched > size ? block->touched - size : 0;
  *rest = {.size = rest_size,
           .previous = block,
           .pool = this,
           .requested = 0,
           .touched = touched,
           .next_free = nullptr,
           .previous_free = nullptr,
           .free = true,
           .last = block->last};
  if (!rest->last) reinterpret_cast<Header*>(reinterpret_cast<char*>(rest) + rest_size)->previous = rest;
  block->size = size;
  block->last = false;
  insert(rest);
}

// `block` is in no list; its next neighbour is free.
MemoryPool::Header* MemoryPool::merge_with_next(Header* block) {
  auto next = reinterpret_cast<Header*>(reinterpret_cast<char*>(block) + block->size);
  remove(next);
  block->size += next->size;
  block->touched += next->touched;
  block->last = next->last;
  if (!block->last) reinterpret_cast<Header*>(reinterpret_cast<char*>(block) + block->size)->previous = block;
  return block;
}

void* MemoryPool::take(size_t bytes) {
  if (bytes > SIZE_MAX / 4) return nullptr;
  size_t size = round_up(bytes, kAlignment) + sizeof(Header);
  Header* block = find_fit(size);
  if (!block) block = add_segment(size);
  if (!block) return nullptr;
  remove(block);
  split(block, size);
  block->requested = bytes;
  used_bytes_ += block->size;
  return block + 1;
}

void MemoryPool::give_back(void* data) {
  Header* block = static_cast<Header*>(data) - 1;
  used_bytes_ -= block->size;
  block->touched = block->size;
  if (!block->last && reinterpret_cast<Header*>(reinterpret_cast<char*>(block) + block->size)->free)
    merge_with_next(block);
  if (Header* previous = block->previous; previous && previous->free) {
    remove(previous);
    previous->size += block->size;
    previous->touched += block->touched;
    previous->last = block->last;
    if (!previous->last)
      reinterpret_cast<Header*>(reinterpret_cast<char*>(previous) + previous->size)->previous = previous;
    block = previous;
  }
  insert(block);
}

size_t MemoryPool::requested_bytes(const void* data) { return (static_cast<const Header*>(data) - 1)->requested; }

MemoryPool* MemoryPool::owner(const void* data) { return (static_cast<const Header*>(data) - 1)->pool; }

void MemoryPool::trim(size_t keep_bytes) {
  for (int bin = kBins - 1; bin >= bin_of(kHugePage) && kept_bytes_ > keep_bytes; bin--) {
    for (Header* block = free_[bin]; block && kept_bytes_ > keep_bytes; block = block->next_free) {
      if (!block->touched) continue;
      uintptr_t start = round_up(reinterpret_cast<uintptr_t>(block + 1), kPage);
      uintptr_t end = (reinterpret_cast<uintptr_t>(block) + block->size) / kPage * kPage;
      if (start < end) madvise(reinterpret_cast<void*>(start), end - start, MADV_DONTNEED);
      kept_bytes_ -= block->touched;
      block->touched = 0;
    }
  }
}

void MemoryPool::check() const {
  auto require = [](bool holds, const char* what) {
    if (!holds) throw std::logic_error(what);
  };
  size_t used = 0, kept = 0, free_blocks = 0, listed = 0;
  for (const Segment* segment = segments_; segment; segment = segment->next) {
    const Header* previous = nullptr;
    for (const Header* block = segment->first;;) {
      require(block->previous == previous, "a block does not know its neighbour");
      require(block->pool == this, "a block does not know its pool");
      require(!(block->free && previous && previous->free), "two free neighbours");
      (block->free ? kept : used) += block->free ? block->touched : block->size;
      free_blocks += block->free;
      if (block->last) break;
      previous = block;
      block = reinterpret_cast<const Header*>(reinterpret_cast<const char*>(block) + block->size);
    }
  }
  for (int bin = 0; bin < kBins; bin++) {
    require(((occupied_[bin / 64] >> (bin % 64)) & 1) == (free_[bin] != nullptr), "a bin's bit is wrong");
    for (const Header* block = free_[bin]; block; block = block->next_free) {
      require(block->free && bin_of(block->size) == bin, "a block in the wrong bin");
      listed++;
    }
  }
  require(listed == free_blocks, "a free block is in no list");
  require(used == used_bytes_ && kept == kept_bytes_, "the sums are wrong");
}

}  // namespace fathom::memory
