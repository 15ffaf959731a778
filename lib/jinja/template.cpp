// Parses once, renders as often as wanted.
#include "jinja/template.h"

#include "base/json_value.h"
#include "jinja/evaluate.h"
#include "jinja/parser.h"
#include "jinja/text.h"

namespace fathom::jinja {
namespace {

Value text_of(const std::string& text, Meter& meter) {
  if (well_formed_prefix(text) < text.size()) meter.fail("the conversation holds a text that is not UTF-8");
  return make_text(text, meter);
}

// JSON values to a template's, each charged as it is made.
Value from_json(const Json& json, Meter& meter) {
  meter.step();
  if (json.is_null()) return Value();
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{INT64_MAX}) {
    meter.fail(json.dump() + ": integers beyond 64 bits are not supported");
  }
  if (json.is_number_integer()) return Value(json.get<int64_t>());
  if (json.is_number_float()) return Value(json.get<double>());
  if (json.is_string()) return text_of(json.get_ref<const std::string&>(), meter);
  if (json.is_array()) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const Json& item : json) items.push_back(from_json(item, meter));
    return make_list(std::move(items), meter);
  }
  Dict dict;
  for (const auto& [key, item] : json.items()) dict.set(text_of(key, meter), from_json(item, meter), meter);
  return make_dict(std::move(dict), meter);
}

}  // namespace

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
  Variables given;
  given.now = options.now;
  for (const auto& [name, json] : variables.items()) {
    given.values.emplace_back(name, from_json(json, meter));
    if (name == options.traced) given.traced = given.values.back().second;
  }
  return evaluate(state_->syntax, given, meter);
}

bool Template::has_generation_blocks() const { return state_->syntax.has_generation; }
const std::vector<std::string>& Template::literals() const { return state_->syntax.literals; }

}  // namespace fathom::jinja
