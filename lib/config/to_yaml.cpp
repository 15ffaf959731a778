// A RunConfig as YAML, group by group.
#include "config/to_yaml.h"

#include "config/keys.h"
#include "config/settings.h"

namespace fathom::config {

std::string to_yaml(const RunConfig& run) {
  const Settings settings = settings_of(run);
  std::string text;
  std::string_view group;
  for (const Key& key : keys()) {
    const auto setting = settings.find(key.name);
    if (setting == settings.end()) continue;
    if (key.group != group) text += (text.empty() ? "# " : "\n# ") + std::string(key.group) + "\n";
    group = key.group;
    text += std::string(key.name) + ": " + setting->second + "\n";
  }
  return text;
}

}  // namespace fathom::config
