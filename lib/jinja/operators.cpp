// Membership, attributes, subscripts and slices.
#include "jinja/operators.h"

#include <algorithm>

#include "jinja/built_ins.h"
#include "jinja/loop.h"
#include "jinja/show.h"
#include "jinja/text.h"

namespace fathom::jinja {
namespace {

Value missing_attribute(const Value& object, const std::string& name) {
  return Value::undefined("'" + type_name(object) + " object' has no attribute '" + shortened(name) + "'");
}

Value unsafe_attribute(const Value& object, const std::string& name) {
  return Value::undefined("access to attribute '" + shortened(name) + "' of '" + type_name(object) +
                          "' object is unsafe.");
}

// What getattr finds: a method, or an attribute of a namespace or loop.
std::optional<Value> own_attribute(const Value& object, const std::string& name, Meter& meter) {
  if (const auto* space = object.get_if<Namespace*>()) {
    const Value* found = (*space)->attributes.find(make_text(name, meter), meter);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  if (const auto* loop = object.get_if<std::shared_ptr<Loop>>()) {
    if (auto value = (*loop)->attribute(name, meter)) return value;
  }
  switch (method_kind(object, name)) {
    case MethodKind::kNone:
      return std::nullopt;
    case MethodKind::kForbidden:
      return unsafe_attribute(object, name);
    case MethodKind::kAllowed:
      break;
  }
  meter.make(4 * sizeof(Value));
  if (object.depth() >= kDeepestValue)
    meter.fail("values nested deeper than " + std::to_string(kDeepestValue) + " levels");
  return Value(std::make_shared<const Method>(Method{object, name}));
}

std::optional<Value> element(const Value& object, int64_t index, Meter& meter) {
  const auto size = length_of(object, meter);
  if (!size) return std::nullopt;
  if (index < 0) index += *size;
  if (index < 0 || index >= *size) return std::nullopt;
  if (const Sequence* sequence = object.sequence()) return sequence->items[index];
  const std::string& text = *object.text();
  const size_t at = byte_of_character(text, index);
  return make_text_like(object, text.substr(at, character_size(text, at)), meter);
}

std::optional<Value> own_item(const Value& object, const Value& index, Meter& meter) {
  if (const Dict* dict = object.dict()) {
    if (!is_hashable(index)) return std::nullopt;
    const Value* found = dict->find(index, meter);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  const auto position = index.integer();
  return position && object.is_indexed() ? element(object, *position, meter) : std::nullopt;
}

std::string shown(const Value& index, Meter& meter) {
  const auto number = index.integer();
  return number || index.text() != nullptr ? to_repr(index, meter) : "of type " + type_name(index);
}

// Python's slice.indices: where to begin and to end for this step.
struct Bounds {
  int64_t start, stop, step;
};
Bounds bounds_of(const Value& start, const Value& stop, const Value& step, int64_t size, Meter& meter) {
  const auto integer = [&](const Value& value) -> std::optional<int64_t> {
    if (value.is<None>()) return std::nullopt;
    if (!value.integer()) refuse(value, "slice bounds: expected integers or none", meter);
    return value.integer();
  };
  const int64_t by = integer(step).value_or(1);
  if (by == 0) meter.fail("slice step cannot be zero");
  const int64_t lowest = by > 0 ? 0 : -1, highest = by > 0 ? size : size - 1;
  const auto clamp = [&](std::optional<int64_t> bound, int64_t fallback) {
    if (!bound) return fallback;
    return *bound < 0 ? std::max(*bound + size, lowest) : std::min(*bound, highest);
  };
  const int64_t from = clamp(integer(start), by > 0 ? lowest : highest);
  return {from, clamp(integer(stop), by > 0 ? highest : lowest), by};
}

std::vector<int64_t> positions(const Bounds& bounds, int64_t size, Meter& meter) {
  std::vector<int64_t> result;
  for (int64_t at = bounds.start; bounds.step > 0 ? at < bounds.stop : at > bounds.stop;) {
    meter.step();
    result.push_back(at);
    if (bounds.step > size || bounds.step < -size) break;  // the next one would be outside, or beyond 64 bits
    at += bounds.step;
  }
  return result;
}

}  // namespace

bool contains(const Value& container, const Value& item, Meter& meter) {
  meter.step();
  if (const std::string* text = container.text()) {
    const std::string* part = item.text();
    if (part == nullptr) refuse(item, "'in' with a string on the right needs a string on the left", meter);
    meter.read(text->size() + part->size());
    return find_text(*text, *part) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    if (!is_hashable(item)) refuse(item, "'in' a mapping: expected a value that can be a key", meter);
    return dict->find(item, meter) != nullptr;
  }
  Cursor cursor(container, meter);
  while (const auto candidate = cursor.next()) {
    if (equal(*candidate, item, meter)) return true;
  }
  return false;
}

Value get_attribute(const Value& object, const std::string& name, Meter& meter) {
  if (object.is<Undefined>()) refuse(object, "", meter);
  if (name.starts_with("__")) return unsafe_attribute(object, name);
  if (auto value = own_attribute(object, name, meter)) return *value;
  if (const Dict* dict = object.dict()) {
    if (const Value* found = dict->find(make_text(name, meter), meter)) return *found;
  }
  return missing_attribute(object, name);
}

Value get_item(const Value& object, const Value& index, Meter& meter) {
  if (object.is<Undefined>()) refuse(object, "", meter);
  if (auto value = own_item(object, index, meter)) return *value;
  if (const std::string* name = index.text()) {
    if (name->starts_with("__")) return unsafe_attribute(object, *name);
    if (auto value = own_attribute(object, *name, meter)) return *value;
    return missing_attribute(object, *name);
  }
  return Value::undefined(type_name(object) + " object has no element " + shown(index, meter));
}

Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step, Meter& meter) {
  if (!object.is_indexed()) refuse(object, "a slice: expected a list or a string", meter);
  const int64_t size = *length_of(object, meter);
  const Bounds bounds = bounds_of(start, stop, step, size, meter);
  if (const std::string* text = object.text()) {
    meter.make(text->size());
    if (bounds.step == 1) {
      const size_t from = byte_of_character(*text, bounds.start);
      const size_t to = byte_of_character(*text, std::max(bounds.start, bounds.stop));
      return make_text_like(object, text->substr(from, to - from), meter);
    }
    meter.visit(text->size());
    const std::vector<char32_t> characters = to_characters(*text);
    std::string part;
    for (int64_t at : positions(bounds, size, meter)) append_character(part, characters[at]);
    return make_text_like(object, std::move(part), meter);
  }
  std::vector<Value> items;
  for (int64_t at : positions(bounds, size, meter)) items.push_back(object.sequence()->items[at]);
  return make_sequence(std::move(items), object.sequence()->flavor, meter);
}

}  // namespace fathom::jinja
