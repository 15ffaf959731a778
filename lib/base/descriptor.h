// A file descriptor that closes itself, and a write that is whole.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fathom {

class Descriptor {
 public:
  // Takes over an open descriptor; negative: none.
  explicit Descriptor(int value = -1) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }

  int get() const { return value_; }
  bool is_open() const { return value_ >= 0; }
  void close();

 private:
  int value_;
};

// Writes all bytes, however many calls that takes and whatever interrupts them. False: errno says why not.
bool write_whole(const Descriptor& file, const void* data, size_t bytes);
// The same from byte `offset` of the file on.
bool write_whole_at(const Descriptor& file, int64_t offset, const void* data, size_t bytes);

}  // namespace fathom
