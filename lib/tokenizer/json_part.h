// Reading the parts of tokenizer.json, each an object with a type; errors name file and key.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace fathom::tokenizer {

// Null where the object has no such key, or null under it, or is no object.
const Json* find_key(const Json& object, std::string_view key);
// All throw Error naming `where` for a value of another kind.
std::string type_of(const Json& part, const std::string& where);
bool read_flag(const Json& part, const char* key, bool fallback, const std::string& where);
std::string read_text(const Json& part, const char* key, const std::string& where);
const Json& list_of(const Json& part, const char* key, const std::string& where);
// The regular expression of {"Regex": …} or {"String": …} under "pattern".
std::string read_pattern(const Json& part, const std::string& where);
// The text of {"String": …} under "pattern", if it is that.
std::optional<std::string> read_literal_pattern(const Json& part);
[[noreturn]] void reject_type(const std::string& where, const std::string& type, const std::string& supported);

}  // namespace fathom::tokenizer
