// Binding of arguments to parameters.
#include "jinja/arguments.h"

#include <algorithm>

namespace fathom::jinja {

Bound::Bound(std::string_view callee, CallArguments arguments, std::vector<std::string_view> names, Meter& meter)
    : callee_(callee), names_(std::move(names)), values_(names_.size()), meter_(meter) {
  if (!names_.empty() && names_.front() == kAll) {
    all_ = std::move(arguments);
    return;
  }
  if (arguments.positional.size() > names_.size()) {
    if (names_.empty()) fail("arguments are not supported");
    fail("more than " + std::to_string(names_.size()) + " arguments are not supported, got " +
         std::to_string(arguments.positional.size()));
  }
  std::move(arguments.positional.begin(), arguments.positional.end(), values_.begin());
  for (auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) fail("the keyword argument '" + name + "' is not supported");
    std::optional<Value>& slot = values_[found - names_.begin()];
    if (slot) fail("got several values for '" + name + "'");
    slot = std::move(value);
  }
}

Value Bound::value(size_t place) const {
  if (!has(place)) fail("the argument '" + std::string(names_[place]) + "' is missing");
  return *values_[place];
}

Value Bound::value(size_t place, const Value& fallback) const { return has(place) ? *values_[place] : fallback; }

std::string Bound::text(size_t place) const {
  const Value found = value(place);
  if (found.text() == nullptr) {
    refuse(found, callee_ + ": " + std::string(names_[place]) + ": expected a string", meter_);
  }
  meter_.read(found.text()->size());
  return *found.text();
}

int64_t Bound::integer(size_t place, int64_t fallback) const {
  if (!has(place)) return fallback;
  const Value found = value(place);
  if (!found.integer()) {
    refuse(found, callee_ + ": " + std::string(names_[place]) + ": expected an integer", meter_);
  }
  return *found.integer();
}

bool Bound::flag(size_t place, bool fallback) const { return has(place) ? truth(*values_[place]) : fallback; }

Value BuiltIn::call(const Value& operand, CallArguments arguments, Meter& meter) const {
  meter.step();
  std::vector<std::string_view> names;
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(names), [](auto name) { return name; });
  return apply(operand, Bound(name, std::move(arguments), std::move(names), meter), meter);
}

const BuiltIn* find_built_in(std::span<const BuiltIn> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const BuiltIn& row) { return row.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace fathom::jinja
