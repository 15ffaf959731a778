// Binding of arguments to parameters.
#include "jinja/arguments.h"

#include <algorithm>

namespace fathom::jinja {

Signature::Signature(std::string callee, CallArguments arguments, std::initializer_list<const char*> names,
                     Meter& meter)
    : callee_(std::move(callee)), names_(names.begin(), names.end()), values_(names.size()), meter_(meter) {
  if (arguments.positional.size() > names_.size()) {
    meter.fail(callee_ + ": takes at most " + std::to_string(names_.size()) + " arguments, got " +
               std::to_string(arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = std::move(arguments.positional[i]);
  for (auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) meter.fail(callee_ + ": takes no keyword argument '" + name + "'");
    std::optional<Value>& slot = values_[found - names_.begin()];
    if (slot) meter.fail(callee_ + ": got several values for '" + name + "'");
    slot = std::move(value);
  }
}

Value Signature::value(size_t place) const {
  if (!values_[place]) meter_.fail(callee_ + ": the argument '" + names_[place] + "' is missing");
  return *values_[place];
}

Value Signature::value(size_t place, Value fallback) const {
  return values_[place] ? *values_[place] : std::move(fallback);
}

std::string Signature::text(size_t place) const {
  const Value found = value(place);
  if (found.text() == nullptr) refuse(found, callee_ + ": " + names_[place] + ": expected a string", meter_);
  meter_.read(found.text()->size());
  return *found.text();
}

int64_t Signature::integer(size_t place, int64_t fallback) const {
  if (!values_[place]) return fallback;
  const Value found = value(place);
  if (!found.integer()) refuse(found, callee_ + ": " + names_[place] + ": expected an integer", meter_);
  return *found.integer();
}

bool Signature::flag(size_t place, bool fallback) const { return truth(value(place, Value(Value::Data(fallback)))); }

}  // namespace fathom::jinja
