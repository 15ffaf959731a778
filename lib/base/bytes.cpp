// Sizes in bytes as text, and arithmetic on them that cannot wrap around.
#include "base/bytes.h"

#include <array>
#include <limits>

#include "base/count.h"
#include "base/error.h"
#include "base/numbers.h"

namespace fathom {
namespace {

struct Unit {
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<Unit, 10> kUnits{{{"", 1},
                                       {"B", 1},
                                       {"KiB", kKiB},
                                       {"MiB", kMiB},
                                       {"GiB", kGiB},
                                       {"TiB", kGiB * 1024},
                                       {"KB", 1'000},
                                       {"MB", 1'000'000},
                                       {"GB", 1'000'000'000},
                                       {"TB", 1'000'000'000'000}}};

[[noreturn]] void throw_not_a_size(std::string_view text) {
  throw Error("'" + std::string(text.substr(0, 64)) + "' is not a size in bytes",
              "write a number and a unit: 24GiB, 1.5MiB, 80GB, 1024");
}

[[noreturn]] void throw_overflow(std::string_view what) {
  throw Error(std::string(what) + " is larger than 2^63 bytes or negative");
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  constexpr std::array<const char*, 6> kNames{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes > -kKiB && bytes < kKiB) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.995 would be printed as 1024.00, which the next unit says better.
  while ((value >= 1023.995 || value <= -1023.995) && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return format_decimal(value, 2) + " " + kNames[unit];
}

std::string format_count(int64_t count) {
  std::string text = std::to_string(count);
  const size_t first = text[0] == '-' ? 1 : 0;
  for (size_t at = text.size(); at > first + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

int64_t parse_bytes(std::string_view text) {
  __int128 mantissa = 0;
  __int128 divisor = 1;
  size_t at = 0;
  int digits = 0;
  bool fraction = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !fraction && digits > 0) {
      fraction = true;
    } else if (c >= '0' && c <= '9') {
      if (++digits > 19) throw_not_a_size(text);
      mantissa = mantissa * 10 + (c - '0');
      if (fraction) divisor *= 10;
    } else {
      break;
    }
  }
  if (digits == 0 || text[at - 1] == '.') throw_not_a_size(text);
  if (at < text.size() && text[at] == ' ') ++at;
  for (const Unit& unit : kUnits) {
    if (text.substr(at) != unit.name) continue;
    const __int128 bytes = mantissa * unit.bytes / divisor;
    if (bytes > std::numeric_limits<int64_t>::max()) throw_overflow("size '" + std::string(text) + "'");
    return static_cast<int64_t>(bytes);
  }
  throw_not_a_size(text);
}

int64_t checked_multiply(int64_t a, int64_t b, std::string_view what) {
  int64_t result = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &result)) throw_overflow(what);
  return result;
}

int64_t checked_add(int64_t a, int64_t b, std::string_view what) {
  int64_t result = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &result)) throw_overflow(what);
  return result;
}

}  // namespace fathom
