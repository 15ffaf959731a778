// By the table of keys: what `get` writes, `set` reads.
#include "config/settings.h"

#include <algorithm>

#include "config/checks.h"
#include "config/keys.h"
#include "config/problem.h"
#include "config/text.h"
#include "config/yaml.h"

namespace fathom::config {
namespace {

void take_one(const std::string& name, const std::string& text, RunConfig& run, Problems& problems) {
  constexpr Position kNowhere;
  Problems own("");
  const Key* key = find_key(name);
  const Value value = read_yaml_value(name, text, own);
  if (key == nullptr) {
    problems.add(kNowhere, name, "no key of a run has this name");
  } else if (!own.empty()) {
    problems.add(kNowhere, name, "'" + printable(text) + "' is not a value");
  } else if (const auto mismatch = key->set(run, value)) {
    problems.add(kNowhere, name, *mismatch);
  }
}

std::string default_in_words(const std::string& name) {
  const Key* key = find_key(name);
  const std::string value = key == nullptr ? "null" : key->get(RunConfig());
  return value == "null" ? "unset" : value;
}

std::string value_of(const std::string& name, const Settings& settings) {
  const auto found = settings.find(name);
  return found == settings.end() ? default_in_words(name) : found->second;
}

}  // namespace

Settings settings_of(const RunConfig& run) {
  Settings settings;
  for (const Key& key : keys()) {
    const std::string value = key.get(run);
    if (value != "null" && applies(key.name, run)) settings.emplace(key.name, value);
  }
  return settings;
}

Settings settings_in(std::string_view yaml) {
  Settings settings;
  while (!yaml.empty()) {
    const std::string_view line = yaml.substr(0, yaml.find('\n'));
    yaml.remove_prefix(std::min(yaml.size(), line.size() + 1));
    const size_t colon = line.find(": ");
    if (colon == std::string_view::npos || line.starts_with('#')) continue;
    settings.emplace(std::string(line.substr(0, colon)), std::string(line.substr(colon + 2)));
  }
  return settings;
}

void take(const Settings& settings, const std::string& origin, RunConfig& run) {
  Problems problems(origin);
  for (const auto& [name, text] : settings) take_one(name, text, run, problems);
  problems.throw_if_any();
}

RunConfig config_of(const Settings& settings, const std::string& origin) {
  RunConfig run;
  take(settings, origin, run);
  return run;
}

std::vector<Difference> differences(const Settings& here, const Settings& there) {
  Settings names = here;
  names.insert(there.begin(), there.end());
  std::vector<Difference> differences;
  for (const auto& [name, value] : names) {
    Difference each = {name, value_of(name, here), value_of(name, there)};
    if (each.here != each.there) differences.push_back(std::move(each));
  }
  return differences;
}

std::string in_words(const std::vector<Difference>& differences, const std::string& other) {
  std::string text;
  for (const auto& [key, here, there] : differences) {
    text.append(text.empty() ? "" : ", ").append(key).append(": ").append(here);
    text.append(" (").append(other).append(" ").append(there).append(")");
  }
  return text;
}

}  // namespace fathom::config
