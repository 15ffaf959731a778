// Makes rows of the table of keys: one function for each kind of value. Internal to keys.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/nearest_name.h"
#include "config/keys.h"
#include "config/names.h"
#include "config/value.h"

namespace fathom::config {

// A row without `set` and `get`.
template <typename Member>
Key make_key(std::string_view name, std::string type, Member member, std::string_view meaning,
             std::string_view unset = "") {
  Key key;
  key.name = name;
  key.type = std::move(type);
  key.meaning = meaning;
  key.unset = unset;
  key.copy = [=](const RunConfig& from, RunConfig& to) { to.*member = from.*member; };
  return key;
}

Key flag(std::string_view name, bool RunConfig::*member, std::string_view meaning);
Key optional_flag(std::string_view name, std::optional<bool> RunConfig::*member, std::string_view unset,
                  std::string_view meaning);
Key integer(std::string_view name, int64_t RunConfig::*member, Range range, std::string_view meaning);
// Bytes; 0 stands for none.
Key size(std::string_view name, int64_t RunConfig::*member, std::string_view unset, std::string_view meaning);
Key number(std::string_view name, double RunConfig::*member, Range range, std::string_view meaning);
// Every text of a config is a path.
Key text(std::string_view name, const std::string& type, std::string RunConfig::*member, std::string_view unset,
         std::string_view meaning);
Key paths(std::string_view name, const std::string& type, std::vector<std::string> RunConfig::*member,
          std::string_view unset, std::string_view meaning);
template <typename T, size_t N>
Key choice(std::string_view name, T RunConfig::*member, const Names<T, N>& names, std::string_view meaning) {
  std::string type;
  std::vector<std::string> words;
  for (const auto& entry : names) {
    type += (type.empty() ? "" : ", ") + std::string(entry.second);
    words.emplace_back(entry.second);
  }
  Key key = make_key(name, type, member, meaning);
  key.set = [=, &names](RunConfig& run, const Value& value) -> std::optional<Mismatch> {
    for (const auto& [candidate, word] : names) {
      if (value.kind != Value::Kind::kScalar || value.text != word) continue;
      run.*member = candidate;
      return std::nullopt;
    }
    const std::string meant = value.kind == Value::Kind::kScalar ? nearest_name(value.text, words) : "";
    return Mismatch{"one of " + type, describe(value), meant.empty() ? "" : "write " + meant};
  };
  key.get = [=, &names](const RunConfig& run) { return std::string(name_in(names, run.*member)); };
  return key;
}

Key dtype_key();
Key modules_key();
Key target_parameters_key();
Key saved_modules_key();

}  // namespace fathom::config
