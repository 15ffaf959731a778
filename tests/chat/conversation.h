// What the tests of chat templates say and read.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <utility>

#include "base/json_value.h"

namespace fathom::chat {

inline const std::filesystem::path kTests = std::filesystem::path(FATHOM_SOURCE_DIR) / "tests" / "chat";

inline Json conversation(std::initializer_list<std::pair<const char*, const char*>> turns) {
  Json messages = Json::array();
  for (const auto& [role, content] : turns) messages.push_back({{"role", role}, {"content", content}});
  return messages;
}

}  // namespace fathom::chat
