// Parses once, renders as often as wanted.
#include "jinja/template.h"

#include "jinja/evaluate.h"
#include "jinja/from_json.h"
#include "jinja/parser.h"

namespace fathom::jinja {

struct Template::State {
  std::string origin;
  Syntax syntax;
};

Template::Template(std::string_view source, std::string origin) {
  Syntax syntax = parse(source, origin);
  state_ = std::make_unique<const State>(State{std::move(origin), std::move(syntax)});
}
Template::Template(Template&&) noexcept = default;
Template::~Template() = default;

Rendered Template::render(const Json& variables, const Limits& limits,
                          std::optional<std::chrono::local_seconds> now) const {
  Meter meter(state_->origin, limits);
  Evaluator evaluator(state_->syntax, meter, now);
  for (const auto& [name, value] : variables.items()) evaluator.define(name, from_json(value, meter));
  return evaluator.run();
}

bool Template::has_generation_blocks() const { return state_->syntax.has_generation; }

}  // namespace fathom::jinja
