// Runs a syntax tree: statements write text, expressions make values.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/template.h"

namespace fathom::jinja {

struct Variables {
  std::vector<std::pair<std::string_view, Value>> values;  // by names that outlive the rendering
  Value traced;                                            // Rendered::visits tells of this list's mappings
  std::optional<std::chrono::local_seconds> now;           // what strftime_now tells; unset: the clock's time
};

Rendered evaluate(const Syntax& syntax, const Variables& variables, Meter& meter);

}  // namespace fathom::jinja
