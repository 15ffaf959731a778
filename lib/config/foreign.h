// What other tools call keys and values, and what fathom does not support yet: so that a config from elsewhere is told
// its names here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/problem.h"
#include "config/yaml.h"

namespace fathom::config {

// Why the key is none of ours and what to write instead; always has a remedy.
struct UnknownKey {
  std::string message;
  std::string remedy;
  std::string_view meant = {};  // the key of ours that was probably meant; empty if none was
  bool is_foreign = false;      // other tools have it
};
// value: beside it, where there is one; some say more than their key.
UnknownKey explain_unknown_key(std::string_view name, const Value* value = nullptr);

// Another tool's value of one of our keys; nothing if the value is not a known stranger.
std::optional<Mismatch> foreign_value(std::string_view key, const Value& value);

}  // namespace fathom::config
