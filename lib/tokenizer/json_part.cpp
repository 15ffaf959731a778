// One function for each kind of value.
#include "tokenizer/json_part.h"

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::tokenizer {
namespace {

// A literal text as a pattern that matches it alone.
std::string escaped(std::string_view text) {
  std::string pattern;
  for (const char letter : text) {
    if (std::string_view(R"(\.*?+^$|()[]{}-# )").find(letter) != std::string_view::npos) pattern += '\\';
    pattern += letter;
  }
  return pattern;
}

}  // namespace

const Json* find_key(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string type_of(const Json& part, const std::string& where) {
  const Json* type = find_key(part, "type");
  if (type == nullptr || !type->is_string()) throw Error(where + ": expected an object with a type");
  return type->get<std::string>();
}

bool read_flag(const Json& part, const char* key, bool fallback, const std::string& where) {
  const Json* value = find_key(part, key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) throw Error(where + "." + key + ": expected true or false");
  return value->get<bool>();
}

std::string read_text(const Json& part, const char* key, const std::string& where) {
  const Json* value = find_key(part, key);
  if (value == nullptr || !value->is_string()) throw Error(where + "." + key + ": expected a text");
  return value->get<std::string>();
}

const Json& list_of(const Json& part, const char* key, const std::string& where) {
  const Json* list = find_key(part, key);
  if (list == nullptr || !list->is_array()) throw Error(where + "." + key + ": expected a list");
  return *list;
}

std::string read_pattern(const Json& part, const std::string& where) {
  const Json* pattern = find_key(part, "pattern");
  if (pattern != nullptr && pattern->is_object() && pattern->size() == 1) {
    if (find_key(*pattern, "Regex") != nullptr) return read_text(*pattern, "Regex", where + ".pattern");
    if (find_key(*pattern, "String") != nullptr) return escaped(read_text(*pattern, "String", where + ".pattern"));
  }
  throw Error(where + R"(.pattern: expected {"Regex": …} or {"String": …})");
}

std::optional<std::string> read_literal_pattern(const Json& part) {
  const Json* pattern = find_key(part, "pattern");
  const Json* text = pattern == nullptr || pattern->size() != 1 ? nullptr : find_key(*pattern, "String");
  if (text == nullptr || !text->is_string() || text->get_ref<const std::string&>().empty()) return std::nullopt;
  return text->get<std::string>();
}

void reject_type(const std::string& where, const std::string& type, const std::string& supported) {
  throw Error(where + ".type: '" + type.substr(0, 80) + "' is not supported", "those that are: " + supported);
}

}  // namespace fathom::tokenizer
