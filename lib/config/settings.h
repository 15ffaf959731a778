// A RunConfig key by key: as a checkpoint keeps it, as another process gets it, and as two runs are compared.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.h"

namespace fathom::config {

// Of each key that has a value and a meaning, the value as config.yaml has it.
using Settings = std::map<std::string, std::string, std::less<>>;

Settings settings_of(const RunConfig& run);
// Those of a text that to_yaml has made, as they stand there.
Settings settings_in(std::string_view yaml);
// Gives the run these values; origin: how messages call them. Throws UsageError, with a line for each, for keys that
// there are not and for what is no value of its key; how keys go together is not looked at.
void take(const Settings& settings, const std::string& origin, RunConfig& run);
// The run that has these settings, and defaults for the rest. Throws as `take` does.
RunConfig config_of(const Settings& settings, const std::string& origin);

// A key with its values in two runs, in words: where one says nothing of it, its default, or "unset" for keys that may
// be without a value.
struct Difference {
  std::string key, here, there;
};
// In the order of their names.
std::vector<Difference> differences(const Settings& here, const Settings& there);
// "max_steps: 8 (there 6), seed: 1 (there 2)"; other: "there".
std::string in_words(const std::vector<Difference>& differences, const std::string& other);

}  // namespace fathom::config
