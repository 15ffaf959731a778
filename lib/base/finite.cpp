// A number is not finite where all bits of its exponent are set (E4M3: of its magnitude), whatever its type.
#include "base/finite.h"

#include <algorithm>
#include <cstring>

#include "base/clones.h"

namespace fathom {
namespace {

// Blocks short enough to end soon after the first hit, long enough to be vectorised.
constexpr int64_t kBlock = 4096;

template <typename Word>
[[gnu::always_inline]] inline bool none_has_all_of(Word bits, const std::byte* data, int64_t count) {
  for (int64_t start = 0; start < count; start += kBlock) {
    const int64_t end = std::min(count, start + kBlock);
    Word found = 0;
    for (int64_t i = start; i < end; ++i) {
      Word word;
      std::memcpy(&word, data + i * static_cast<int64_t>(sizeof word), sizeof word);
      found = static_cast<Word>(found | ((word & bits) == bits ? 1 : 0));
    }
    if (found != 0) return false;
  }
  return true;
}

FATHOM_CLONES bool finite_64(uint64_t bits, const std::byte* data, int64_t n) { return none_has_all_of(bits, data, n); }
FATHOM_CLONES bool finite_32(uint32_t bits, const std::byte* data, int64_t n) { return none_has_all_of(bits, data, n); }
FATHOM_CLONES bool finite_16(uint16_t bits, const std::byte* data, int64_t n) { return none_has_all_of(bits, data, n); }
FATHOM_CLONES bool finite_8(uint8_t bits, const std::byte* data, int64_t n) { return none_has_all_of(bits, data, n); }

}  // namespace

bool all_finite(const std::byte* data, DType type, int64_t bytes) {
  switch (type) {
    case DType::kF64:
      return finite_64(0x7FF0'0000'0000'0000, data, bytes / 8);
    case DType::kF32:
      return finite_32(0x7F80'0000, data, bytes / 4);
    case DType::kBF16:
      return finite_16(0x7F80, data, bytes / 2);
    case DType::kF16:
      return finite_16(0x7C00, data, bytes / 2);
    case DType::kF8E5M2:
      return finite_8(0x7C, data, bytes);
    case DType::kF8E4M3:  // "FN": no infinity, and one NaN of either sign
      return finite_8(0x7F, data, bytes);
    default:
      return true;
  }
}

}  // namespace fathom
