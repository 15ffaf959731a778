// XXH3-128 in its canonical form (big-endian, high half first), the form that `xxh128sum` prints.
#include "base/hash.h"

#define XXH_INLINE_ALL  // compiled in here, so that nothing need be shipped beside the program
#include <xxhash.h>

#include <algorithm>
#include <array>

#include "base/file.h"

namespace fathom {

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::update(const void* data, size_t size) { XXH3_128bits_update(&state_->xxh, data, size); }

std::string Hasher::digest() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->xxh));
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string hash_bytes(const void* data, size_t size) {
  Hasher hasher;
  hasher.update(data, size);
  return hasher.digest();
}

std::string hash_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  return hash_bytes(file.data(), file.size());
}

}  // namespace fathom
