// A RunConfig as YAML, group by group.
#include "config/to_yaml.h"

#include "config/checks.h"
#include "config/keys.h"

namespace fathom::config {

std::string to_yaml(const RunConfig& run) {
  std::string text;
  std::string_view group;
  for (const Key& key : keys()) {
    const std::string value = key.get(run);
    if (value == "null" || !applies(key.name, run)) continue;
    if (key.group != group) text += (text.empty() ? "# " : "\n# ") + std::string(key.group) + "\n";
    group = key.group;
    text += std::string(key.name) + ": " + value + "\n";
  }
  return text;
}

}  // namespace fathom::config
