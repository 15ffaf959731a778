// Filters over items: map, select and the like are as lazy as Jinja's generators.
#include <algorithm>
#include <memory>

#include "jinja/arguments.h"
#include "jinja/attribute_path.h"
#include "jinja/filter_table.h"
#include "jinja/show.h"
#include "jinja/text.h"

namespace fathom::jinja {
namespace {

using Item = std::optional<Value>;

int deepest(const CallArguments& arguments) {
  int depth = 0;
  for (const Value& value : arguments.positional) depth = std::max(depth, value.depth());
  for (const auto& [name, value] : arguments.named) depth = std::max(depth, value.depth());
  return depth;
}

// An iterator over what `change` makes of each item; nullopt drops the item. Nothing, for what is false. depth: of what
// `change` holds.
template <typename Change>
Value over_items(const Value& operand, int depth, Change change, Meter& meter) {
  if (!truth(operand)) return make_iterator([]() -> Item { return std::nullopt; }, 1, meter);
  auto cursor = std::make_shared<std::optional<Cursor>>();
  const auto next = [operand, cursor, change, &meter]() -> Item {
    if (!*cursor) cursor->emplace(operand, meter);
    while (const Item item = (*cursor)->next()) {
      if (Item changed = change(*item)) return changed;
    }
    return std::nullopt;
  };
  return make_iterator(next, std::max(operand.depth(), depth) + 1, meter);
}

Value map(const Value& operand, CallArguments arguments, Meter& meter) {
  if (arguments.positional.empty() && std::any_of(arguments.named.begin(), arguments.named.end(),
                                                  [](const auto& pair) { return pair.first == "attribute"; })) {
    const Signature signature("map", std::move(arguments), {"attribute", "default"}, meter);
    const AttributePath path(signature.value(0), meter);
    const Value fallback = signature.value(1, Value());
    return over_items(
        operand, fallback.depth(),
        [path, fallback, &meter](const Value& item) -> Item { return path.look_up(item, fallback, meter); }, meter);
  }
  if (arguments.positional.empty()) meter.fail("map requires a filter argument");
  const Value first = arguments.positional.front();
  if (first.text() == nullptr) refuse(first, "map: expected the name of a filter", meter);
  arguments.positional.erase(arguments.positional.begin());
  const std::string name = *first.text();
  const int depth = deepest(arguments);
  return over_items(
      operand, depth,
      [name, arguments, &meter](const Value& item) -> Item { return apply_filter(name, item, arguments, meter); },
      meter);
}

// select, reject (of the items) and selectattr, rejectattr (of an attribute of theirs).
template <bool keeps, bool by_attribute>
Value choose(const Value& operand, CallArguments arguments, Meter& meter) {
  Value path_value;
  auto& positional = arguments.positional;
  if (by_attribute) {
    if (positional.empty()) meter.fail("Missing parameter for attribute name");
    path_value = positional.front();
    positional.erase(positional.begin());
  }
  std::optional<std::string> test;
  if (!positional.empty()) {
    if (positional.front().text() == nullptr) refuse(positional.front(), "expected the name of a test", meter);
    test = *positional.front().text();
    positional.erase(positional.begin());
  }
  const AttributePath path(path_value, meter);
  const auto change = [path, test, arguments, &meter](const Value& item) -> Item {
    const Value value = path.look_up(item, Value(), meter);
    const bool holds = test ? apply_test(*test, value, arguments, meter) : truth(value);
    return holds == keeps ? Item(item) : std::nullopt;
  };
  return over_items(operand, deepest(arguments), change, meter);
}

Value first(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("first", std::move(arguments), {}, meter);
  return Cursor(operand, meter).next().value_or(Value::undefined("No first item, sequence was empty."));
}

// What Python's reversed() takes, from its end.
std::optional<std::vector<Value>> reversed(const Value& operand, Meter& meter) {
  if (!length_of(operand, meter)) return std::nullopt;
  std::vector<Value> items = to_vector(operand, meter);
  std::reverse(items.begin(), items.end());
  return items;
}

Value last(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("last", std::move(arguments), {}, meter);
  const auto items = reversed(operand, meter);
  if (!items) refuse(operand, "last: expected something that can be read from its end", meter);
  return items->empty() ? Value::undefined("No last item, sequence was empty.") : items->front();
}

Value reverse(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("reverse", std::move(arguments), {}, meter);
  if (const std::string* text = operand.text()) {
    meter.visit(text->size());
    std::vector<char32_t> characters = to_characters(*text);
    std::string result;
    for (auto character = characters.rbegin(); character != characters.rend(); ++character)
      append_character(result, *character);
    return make_text(std::move(result), meter);
  }
  if (auto items = reversed(operand, meter)) {
    const Value list = make_list(std::move(*items), meter);
    return over_items(
        list, 0, [](const Value& item) -> Item { return item; }, meter);
  }
  std::vector<Value> items = to_vector(operand, meter);
  std::reverse(items.begin(), items.end());
  return make_list(std::move(items), meter);
}

Value list(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("list", std::move(arguments), {}, meter);
  return make_list(to_vector(operand, meter), meter);
}

Value join(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("join", std::move(arguments), {"d", "attribute"}, meter);
  const std::string separator = to_text(signature.value(0, make_text("", meter)), meter);
  const AttributePath path(signature.value(1, Value()), meter);
  std::string result;
  bool is_first = true;
  Cursor cursor(operand, meter);
  while (const Item item = cursor.next()) {
    const std::string text = to_text(path.look_up(*item, Value(), meter), meter);
    meter.make(text.size() + separator.size());
    if (!is_first) result += separator;
    result += text;
    is_first = false;
  }
  return make_text(std::move(result), meter);
}

Value items(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("items", std::move(arguments), {}, meter);
  if (!operand.is<Undefined>() && operand.dict() == nullptr) refuse(operand, "items: expected a mapping", meter);
  const auto pair = [operand, &meter](const Value& key) -> Item {
    return make_tuple({key, *operand.dict()->find(key, meter)}, meter);
  };
  return over_items(operand, 0, pair, meter);
}

Value unique(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("unique", std::move(arguments), {"case_sensitive", "attribute"}, meter);
  const bool case_sensitive = signature.flag(0, false);
  const AttributePath path(signature.value(1, Value()), meter);
  const auto seen = std::make_shared<Dict>();
  const auto change = [path, case_sensitive, seen, &meter](const Value& item) -> Item {
    Value key = path.look_up(item, Value(), meter);
    if (!case_sensitive) key = without_case(key, meter);
    if (!is_hashable(key, meter)) refuse(key, "unique: expected values that can be keys", meter);
    if (seen->find(key, meter) != nullptr) return std::nullopt;
    seen->set(key, Value(), meter);
    return item;
  };
  return over_items(operand, 0, change, meter);
}

constexpr FilterEntry kFilters[] = {{"map", map},
                                    {"select", choose<true, false>},
                                    {"reject", choose<false, false>},
                                    {"selectattr", choose<true, true>},
                                    {"rejectattr", choose<false, true>},
                                    {"first", first},
                                    {"last", last},
                                    {"reverse", reverse},
                                    {"list", list},
                                    {"join", join},
                                    {"items", items},
                                    {"unique", unique}};

}  // namespace

std::span<const FilterEntry> sequence_filters() { return kFilters; }

}  // namespace fathom::jinja
