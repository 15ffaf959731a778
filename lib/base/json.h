// JSON in, with what Python writes into it (NaN, Infinity); errors with their line; JSON out as transformers has it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace fathom {

using Json = nlohmann::ordered_json;

// Each takes some 50 to 150 bytes, however short its text: the largest tokenizer.json in use has two million.
inline constexpr size_t kMostJsonValues = size_t{4} << 20;

// origin: what errors call the text (a path). Throws Error with line and column; nesting deeper than 100 and more
// values than most_values are refused.
Json parse_json(std::string_view text, std::string_view origin, size_t most_values = kMostJsonValues);
Json read_json(const std::filesystem::path& path);  // of at most kLargestFile bytes
// Indent 2, keys in their order, newline at the end; invalid UTF-8 is replaced.
std::string format_json(const Json& value);

}  // namespace fathom
