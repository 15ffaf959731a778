// target_modules as one text: PEFT takes it for a regular expression of the whole names of modules, and a list for the
// ends of names.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/text.h"

namespace fathom::config {

inline constexpr std::string_view kAllLinear = "all-linear";
// How RunConfig::target_modules keeps a pattern: as its one entry, with this before it, which no module's name has.
inline constexpr std::string_view kPatternMark = "regex:";

inline std::vector<std::string> targets_of_text(const std::string& text) {
  if (lower_case(text) == kAllLinear) return {std::string(kAllLinear)};
  return {std::string(kPatternMark) + text};
}

inline std::optional<std::string> pattern_of(const std::vector<std::string>& targets) {
  if (targets.size() != 1 || !targets[0].starts_with(kPatternMark)) return std::nullopt;
  return targets[0].substr(kPatternMark.size());
}

}  // namespace fathom::config
