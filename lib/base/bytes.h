// Sizes in bytes: reading "24GiB", writing "1.50 GiB", and arithmetic that refuses to overflow.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fathom {

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

// "123 B", "4.00 KiB", "1,002.00 MiB": two decimals, binary units.
std::string format_bytes(int64_t bytes);
// "12,345,678": for exact figures.
std::string format_count(int64_t count);
// "24GiB", "80 GB" (decimal), "1.5MiB", "1024"; throws Error on anything else.
int64_t parse_bytes(std::string_view text);
// a*b and a+b of non-negative sizes; throw Error (naming `what`) when the result leaves int64.
int64_t checked_multiply(int64_t a, int64_t b, std::string_view what);
int64_t checked_add(int64_t a, int64_t b, std::string_view what);

}  // namespace fathom
