// Scalars of a config as typed values, and back: what is taken, and what is said when not.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/problem.h"
#include "config/yaml.h"

namespace fathom::config {

template <typename T>
using Read = std::variant<T, Mismatch>;

// No whole number of a config is above it.
inline constexpr int64_t kLargestInteger = std::numeric_limits<int32_t>::max();

// The numbers that a key takes.
struct Range {
  double low = 0;
  bool open_low = false;  // low itself is out
  double high = 0;        // 0: no upper bound
  bool open_high = false;
  std::optional<int64_t> special = std::nullopt;  // taken besides
};
std::string in_words(const Range& range);  // "above 0", "at least 0 and below 1", "-1 or at least 1"

// What a value is, for messages: "'text'", "a list", "a map", "nothing".
std::string describe(const Value& value);

Read<bool> read_bool(const Value& value);
Read<int64_t> read_integer(const Value& value, const Range& range);
Read<double> read_number(const Value& value, const Range& range);
// A size above 0 in bytes, as parse_bytes takes it: "24GiB".
Read<int64_t> read_size(const Value& value);
// One line of text; not empty.
Read<std::string> read_text(const Value& value, const std::string& what);
// One path or a list of paths, each on one line; no path twice.
Read<std::vector<std::string>> read_paths(const Value& value, const std::string& what);
// Names of modules; none twice. expected: "a list of module names".
Read<std::vector<std::string>> read_names(const Value& value, const std::string& expected);
// The same, or the word all-linear alone.
Read<std::vector<std::string>> read_modules(const Value& value);

// The size with the largest binary unit that holds it exactly: "24GiB", "1025".
std::string format_size(int64_t bytes);
// The shortest text that reads back as the same number, and that YAML 1.1 readers take for a number too.
std::string format_number(double value);

}  // namespace fathom::config
