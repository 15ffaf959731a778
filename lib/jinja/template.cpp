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

Rendered Template::render(const Json& variables, const Limits& limits) const {
  Meter meter(state_->origin, limits);
  return render(variables, meter, {});
}

Rendered Template::render(const Json& variables, Meter& meter, const RenderOptions& options) const {
  Evaluator evaluator(state_->syntax, meter, options.now);
  for (const auto& [name, json] : variables.items()) {
    Value value = from_json(json, meter);
    if (name == options.traced) evaluator.trace(value);
    evaluator.define(name, std::move(value));
  }
  return evaluator.run();
}

bool Template::has_generation_blocks() const { return state_->syntax.has_generation; }

}  // namespace fathom::jinja
