// Walks messages down to their texts.
#include "chat/other_words.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json_value.h"
#include "jinja/text.h"

namespace fathom::chat {
namespace {

// What a message is by, not what it says.
constexpr std::array<std::string_view, 6> kStructure = {"role", "name", "type", "id", "tool_call_id", "tool_name"};

class Replacer {
 public:
  explicit Replacer(std::span<const std::string> kept) : kept_(kept) {}

  // is_given: the value is inside what a call is given, whose keys are words of no one.
  void replace_in(Json& value, bool is_given = false) const {
    if (value.is_string()) {
      value = other(value.get_ref<const std::string&>());
    } else if (value.is_array()) {
      for (Json& item : value) replace_in(item, is_given);
    } else if (value.is_object()) {
      for (auto& [key, item] : value.get_ref<Json::object_t&>()) {
        const bool is_structure = std::find(kStructure.begin(), kStructure.end(), key) != kStructure.end();
        if (is_given || !is_structure) replace_in(item, is_given || key == "arguments");
      }
    } else if (is_given && value.is_number_integer() && value.get<int64_t>() > 0) {
      value = other(value.get<int64_t>());
    }
  }

  void replace_descriptions_in(Json& value) const {
    if (value.is_array()) {
      for (Json& item : value) replace_descriptions_in(item);
    } else if (value.is_object()) {
      for (auto& [key, item] : value.get_ref<Json::object_t&>()) {
        if (key == "description" && item.is_string()) {
          replace_in(item);
        } else {
          replace_descriptions_in(item);
        }
      }
    }
  }

 private:
  std::string other(const std::string& text) const {
    const std::vector<bool> stays = places_of_kept(text);
    std::string result;
    result.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const size_t size = jinja::character_size(text, at);
      const std::string_view character = std::string_view(text).substr(at, size);
      if (stays[at]) {
        result += character;
      } else {
        jinja::append_character(result, jinja::other_character(jinja::to_characters(character).front()));
      }
      at += size;
    }
    return result;
  }

  // Of as many digits; itself where that is beyond 64 bits.
  static int64_t other(int64_t number) {
    uint64_t result = 0, place = 1;
    for (auto rest = static_cast<uint64_t>(number); rest > 0; rest /= 10, place *= 10) {
      const uint64_t digit = rest % 10;
      result += (digit == 0 ? 0 : digit % 9 + 1) * place;
    }
    return result > uint64_t{INT64_MAX} ? number : static_cast<int64_t>(result);
  }

  std::vector<bool> places_of_kept(std::string_view text) const {
    std::vector<bool> stays(text.size());
    for (const std::string& kept : kept_) {
      for (size_t at = text.find(kept); at != std::string_view::npos; at = text.find(kept, at + kept.size())) {
        std::fill_n(stays.begin() + static_cast<std::ptrdiff_t>(at), kept.size(), true);
      }
    }
    return stays;
  }

  std::span<const std::string> kept_;
};

}  // namespace

Json with_other_words(const Json& messages, Speaker speaker, std::span<const std::string> kept) {
  const Replacer replacer(kept);
  Json result = messages;
  for (Json& message : result) {
    const auto role = message.find("role");
    const bool is_assistant = role != message.end() && *role == "assistant";
    if (is_assistant == (speaker == Speaker::kAssistant)) replacer.replace_in(message);
  }
  return result;
}

Json with_other_descriptions(const Json& variables, std::span<const std::string> kept) {
  const Replacer replacer(kept);
  Json result = variables;
  for (auto& [name, value] : result.get_ref<Json::object_t&>()) {
    if (name == "tools") replacer.replace_descriptions_in(value);
    if (name == "documents") replacer.replace_in(value);
  }
  return result;
}

}  // namespace fathom::chat
