// Functions by their names, and what they make.
#include "jinja/functions.h"

#include "jinja/date.h"
#include "jinja/show.h"

namespace fathom::jinja {
namespace {

Value make_range(const CallArguments& arguments, Meter& meter) {
  const auto& values = arguments.positional;
  if (values.empty() || values.size() > 3 || !arguments.named.empty()) meter.fail("range: expected 1 to 3 integers");
  std::vector<int64_t> bounds;
  for (const Value& value : values) {
    if (!value.integer()) refuse(value, "range: expected integers", meter);
    bounds.push_back(*value.integer());
  }
  const int64_t stop = bounds.size() > 1 ? bounds[1] : bounds[0], step = bounds.size() > 2 ? bounds[2] : 1;
  if (step == 0) meter.fail("range: the step must not be zero");
  std::vector<Value> items;
  bool overflows = false;
  for (int64_t at = bounds.size() > 1 ? bounds[0] : 0; !overflows && (step > 0 ? at < stop : at > stop);) {
    if (static_cast<int64_t>(items.size()) == kLargestRange) {
      meter.fail("Range too big. The sandbox blocks ranges larger than " + std::to_string(kLargestRange));
    }
    meter.step();
    items.emplace_back(Value::Data(at));
    overflows = __builtin_add_overflow(at, step, &at);
  }
  return make_sequence(std::move(items), Sequence::Flavor::kRange, meter);
}

// dict(name=value, …) and namespace(name=value, …).
Dict collect(const CallArguments& arguments, const std::string& callee, Meter& meter) {
  Dict dict;
  if (!arguments.positional.empty()) meter.fail(callee + ": arguments without names are not supported");
  for (const auto& [name, value] : arguments.named) dict.set(make_text(name, meter), value, meter);
  return dict;
}

}  // namespace

std::optional<Function> function_named(std::string_view name) {
  constexpr std::pair<std::string_view, Function> kFunctions[] = {{"range", Function::kRange},
                                                                  {"namespace", Function::kNamespace},
                                                                  {"dict", Function::kDict},
                                                                  {"raise_exception", Function::kRaiseException},
                                                                  {"strftime_now", Function::kStrftimeNow}};
  for (const auto& [known, function] : kFunctions) {
    if (known == name) return function;
  }
  return std::nullopt;
}

Value Functions::make_namespace(const CallArguments& arguments) {
  auto space = std::make_unique<Namespace>();
  space->attributes = collect(arguments, "namespace", meter_);
  for (const auto& [key, value] : space->attributes.entries()) {
    if (key.text() != nullptr && key.text()->starts_with("_")) {
      meter_.fail("a namespace cannot hold the attribute '" + *key.text() + "'");
    }
  }
  meter_.make(sizeof(Namespace));
  namespaces_.push_back(std::move(space));
  return Value(namespaces_.back().get());
}

Value Functions::call(Function function, CallArguments arguments) {
  const auto only = [&](const char* callee, const char* name) {
    return Bound(callee, std::move(arguments), {name}, meter_);
  };
  switch (function) {
    case Function::kRange:
      return make_range(arguments, meter_);
    case Function::kNamespace:
      return make_namespace(arguments);
    case Function::kDict:
      return make_dict(collect(arguments, "dict", meter_), meter_);
    case Function::kRaiseException:
      meter_.fail(to_text(only("raise_exception", "message").value(0), meter_));
    case Function::kStrftimeNow:
      if (!now_) now_ = local_now();  // one moment for the whole rendering
      return make_text(format_date(*now_, only("strftime_now", "format").text(0), meter_), meter_);
  }
  meter_.fail("this function is not supported");
}

}  // namespace fathom::jinja
