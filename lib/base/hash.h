// XXH3-128 of bytes and files, as 32 hexadecimal digits: integrity of checkpoints, not secrecy.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

namespace fathom {

// The hash of bytes that arrive in pieces: the same as that of all of them at once.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  void update(const void* data, size_t size);
  std::string digest() const;  // of what has arrived so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash_bytes(const void* data, size_t size);
std::string hash_file(const std::filesystem::path& path);

}  // namespace fathom
