// A hash table from block keys to block numbers: open addressing without tombstones, for tens of nanoseconds a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fathom::ledger {

class PointerTable {
 public:
  static constexpr uint32_t kMissing = UINT32_MAX;

  PointerTable() : slots_(1024) {}

  // Replaces the number of a key that is already there. The key must not be null.
  void insert(const void* key, uint32_t number) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    size_t i = home(key);
    while (slots_[i].key && slots_[i].key != key) i = next(i);
    if (!slots_[i].key) size_++;
    slots_[i] = {key, number};
  }

  uint32_t find(const void* key) const {
    for (size_t i = home(key); slots_[i].key; i = next(i))
      if (slots_[i].key == key) return slots_[i].number;
    return kMissing;
  }

  // Returns the number, or kMissing.
  uint32_t erase(const void* key) {
    size_t i = home(key);
    while (slots_[i].key && slots_[i].key != key) i = next(i);
    if (!slots_[i].key) return kMissing;
    uint32_t number = slots_[i].number;
    // Entries that were pushed past this slot move back, so that a search never meets a hole before its key.
    for (size_t j = next(i); slots_[j].key; j = next(j)) {
      size_t distance_to_home = (j - home(slots_[j].key)) & (slots_.size() - 1);
      if (distance_to_home >= ((j - i) & (slots_.size() - 1))) {
        slots_[i] = slots_[j];
        i = j;
      }
    }
    slots_[i] = {};
    size_--;
    return number;
  }

  size_t size() const { return size_; }

 private:
  struct Slot {
    const void* key = nullptr;
    uint32_t number = 0;
  };

  size_t home(const void* key) const {
    uint64_t bits = reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15ull;
    return (bits >> 24) & (slots_.size() - 1);
  }
  size_t next(size_t i) const { return (i + 1) & (slots_.size() - 1); }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    size_ = 0;
    for (const Slot& slot : old)
      if (slot.key) insert(slot.key, slot.number);
  }

  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t size_ = 0;
};

}  // namespace fathom::ledger
