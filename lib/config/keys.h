// The table of keys: it drives parsing, --help and docs/config.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/problem.h"
#include "config/run_config.h"
#include "config/yaml.h"

namespace fathom::config {

// What a run that goes on from a checkpoint does with another value than the one that it was saved with.
enum class OnResume {
  kRefused,  // its steps would be others
  kRate,     // taken and told: it decides how long the run is and at which rates, and nothing else
  kPath,     // taken and told where what is read there is the same, by its fingerprint
  kTaken,    // no result of a step depends on it
};

struct Key {
  std::string_view name;
  std::string_view group;    // "model", "method", …
  std::string type;          // what values it takes, in words: "whole number, at least 1"
  std::string_view meaning;  // one sentence
  std::string_view unset;    // what holds while it has no value; empty for keys that always have one
  bool is_text = false;      // on the command line the value is taken as it stands, not as YAML, but for null,
  bool is_list = false;      // and for one that begins with [, which is a list
  OnResume on_resume = OnResume::kRefused;
  // Stores the value, or says why not. Null is taken by keys with `unset`.
  std::function<std::optional<Mismatch>(RunConfig&, const Value&)> set;
  // The value as YAML; "null" without one.
  std::function<std::string(const RunConfig&)> get;
  std::function<void(const RunConfig& from, RunConfig& to)> copy;
};

// Of gradient_accumulation_steps: plans keep the shape of every micro-batch of a step.
inline constexpr int64_t kMostAccumulated = 100'000;

// In the order of RunConfig's members.
const std::vector<Key>& keys();
const Key* find_key(std::string_view name);  // null if there is none

}  // namespace fathom::config
