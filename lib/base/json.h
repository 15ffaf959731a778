// JSON in, with what Python writes into it (NaN, Infinity); errors with their line; JSON out as transformers has it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace fathom {

using Json = nlohmann::ordered_json;

// origin: what errors call the text (a path). Throws Error with line and column; nesting deeper than 100 is refused.
Json parse_json(std::string_view text, std::string_view origin);
Json read_json(const std::filesystem::path& path);
// Indent 2, keys in their order, newline at the end; invalid UTF-8 is replaced.
std::string format_json(const Json& value);

}  // namespace fathom
