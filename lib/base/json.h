// JSON in, with what Python writes into it (NaN, Infinity); errors with their line; JSON out as transformers has it.
// Values are declared only: who looks into one includes base/json_value.h, which costs each file that includes it two
// seconds of compiling.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace fathom {

using Json = nlohmann::ordered_json;

// Each takes some 50 to 150 bytes, however short its text: the largest tokenizer.json in use has two million.
inline constexpr size_t kMostJsonValues = size_t{4} << 20;

// origin: what errors call the text (a path). Throws Error with line and column; nesting deeper than 100 and more
// values than most_values are refused, and of texts, lists and objects more than its quarter, above kMostJsonValues.
Json parse_json(std::string_view text, std::string_view origin, size_t most_values = kMostJsonValues);
Json read_json(const std::filesystem::path& path);  // of at most kLargestFile bytes
// A key's integer from 0 to `most`. Throws Error naming the key for an object without it, and for any other value: the
// library's get() makes integers of fractions, and wraps those that are too large.
uint64_t unsigned_at(const Json& object, const std::string& key, uint64_t most);
int64_t count_at(const Json& object, const std::string& key);  // at most 2^62, so that something can be added
// Indent 2, keys in their order, newline at the end; invalid UTF-8 is replaced.
std::string format_json(const Json& value);

}  // namespace fathom
