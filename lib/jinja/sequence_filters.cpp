// Filters over items: map, select and the like are as lazy as Jinja's generators.
#include <algorithm>
#include <memory>
#include <numeric>

#include "jinja/built_ins.h"
#include "jinja/operators.h"
#include "jinja/show.h"
#include "jinja/text.h"

namespace fathom::jinja {
namespace {

using Item = std::optional<Value>;

// "user.name": what filters like map and sort look up in each item.
Value attribute_of(const Value& item, const std::string& path, Meter& meter) {
  Value value = item;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    if (name.find_first_not_of("0123456789") == std::string::npos) {
      meter.fail("the attribute '" + path + "': places in lists are not supported");
    }
    value = get_item(value, make_text(name, meter), meter);
    begin = end + 1;
  }
  return value;
}

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

// The arguments behind the first `count`.
CallArguments rest_of(const CallArguments& arguments, size_t count) {
  CallArguments rest = arguments;
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

// The argument at that place: of an attribute, a filter or a test.
std::string name_at(const CallArguments& arguments, size_t place, Meter& meter) {
  if (place >= arguments.positional.size()) meter.fail("the name of an attribute, filter or test is missing");
  const Value& name = arguments.positional[place];
  if (name.text() == nullptr) refuse(name, "expected the name of an attribute, filter or test", meter);
  return *name.text();
}

Value map(const Value& operand, const Bound& arguments, Meter& meter) {
  const CallArguments& all = arguments.all();
  if (all.positional.empty()) {
    const auto change = [path = Bound("map", all, {"attribute"}, meter).text(0), &meter](const Value& item) -> Item {
      return attribute_of(item, path, meter);
    };
    return over_items(operand, 0, change, meter);
  }
  const auto change = [name = name_at(all, 0, meter), rest = rest_of(all, 1), &meter](const Value& item) -> Item {
    return apply_filter(name, item, rest, meter);
  };
  return over_items(operand, deepest(all), change, meter);
}

// select, reject (of the items) and selectattr, rejectattr (of an attribute of theirs).
template <bool keeps, bool by_attribute>
Value choose(const Value& operand, const Bound& arguments, Meter& meter) {
  const CallArguments& all = arguments.all();
  const size_t place = by_attribute ? 1 : 0;  // of the test
  const std::string path = by_attribute ? name_at(all, 0, meter) : "";
  const bool has_test = all.positional.size() > place;
  const std::string test = has_test ? name_at(all, place, meter) : "";
  const auto change = [=, rest = rest_of(all, has_test ? place + 1 : place), &meter](const Value& item) -> Item {
    const Value value = by_attribute ? attribute_of(item, path, meter) : item;
    const bool holds = has_test ? apply_test(test, value, rest, meter) : truth(value);
    return holds == keeps ? Item(item) : std::nullopt;
  };
  return over_items(operand, deepest(all), change, meter);
}

Value first(const Value& operand, const Bound&, Meter& meter) {
  return Cursor(operand, meter).next().value_or(Value::undefined("No first item, sequence was empty."));
}

// What Python's reversed() takes, from its end.
std::vector<Value> reversed(const Value& operand, const char* filter, Meter& meter) {
  if (!length_of(operand, meter)) refuse(operand, std::string(filter) + ": expected a list", meter);
  std::vector<Value> items = to_vector(operand, meter);
  std::reverse(items.begin(), items.end());
  return items;
}

Value last(const Value& operand, const Bound&, Meter& meter) {
  const std::vector<Value> items = reversed(operand, "last", meter);
  // As Python's reversed(), which takes a text's characters by their places, and so as what it is.
  if (operand.is<Markup>() && !items.empty()) return make_markup(*items.front().text(), meter);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.front();
}

Value reverse(const Value& operand, const Bound&, Meter& meter) {
  if (operand.text() != nullptr) return get_slice(operand, Value(), Value(), Value(int64_t{-1}), meter);
  const Value items = make_list(reversed(operand, "reverse", meter), meter);
  const auto unchanged = [](const Value& item) -> Item { return item; };
  return over_items(items, 0, unchanged, meter);
}

Value list(const Value& operand, const Bound&, Meter& meter) { return make_list(to_vector(operand, meter), meter); }

Value join(const Value& operand, const Bound& arguments, Meter& meter) {
  const std::string separator = to_text(arguments.value(0, make_text("", meter)), meter);
  std::string result;
  bool is_first = true;
  Cursor cursor(operand, meter);
  while (const Item item = cursor.next()) {
    const std::string text = to_text(*item, meter);
    meter.make(text.size() + separator.size());
    if (!is_first) result += separator;
    result += text;
    is_first = false;
  }
  return make_text(std::move(result), meter);
}

Value items(const Value& operand, const Bound&, Meter& meter) {
  if (!operand.is<Undefined>() && operand.dict() == nullptr) refuse(operand, "items: expected a mapping", meter);
  const auto pair = [operand, &meter](const Value& key) -> Item {
    return make_tuple({key, *operand.dict()->find(key, meter)}, meter);
  };
  return over_items(operand, 0, pair, meter);
}

// What filters compare by: texts in lower case, unless they are told to mind it.
Value key_of(const Value& value, bool case_sensitive, Meter& meter) {
  const bool changes = !case_sensitive && value.text() != nullptr;
  return changes ? make_text(lower(*value.text(), meter), meter) : value;
}

Value unique(const Value& operand, const Bound&, Meter& meter) {
  const auto change = [seen = std::make_shared<Dict>(), &meter](const Value& item) -> Item {
    const Value key = key_of(item, false, meter);
    if (!is_hashable(key)) refuse(key, "unique: expected values that can be keys", meter);
    if (seen->find(key, meter) != nullptr) return std::nullopt;
    seen->set(key, Value(), meter);
    return item;
  };
  return over_items(operand, 0, change, meter);
}

// Equal items keep their order, reversed or not.
Value sorted_by(const std::vector<Value>& keys, const std::vector<Value>& items, bool reverse, Meter& meter) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reverse ? less(keys[b], keys[a], meter) : less(keys[a], keys[b], meter);
  });
  std::vector<Value> sorted;
  sorted.reserve(order.size());
  for (size_t index : order) sorted.push_back(items[index]);
  return make_list(std::move(sorted), meter);
}

Value sort(const Value& operand, const Bound& arguments, Meter& meter) {
  const std::string path = arguments.has_more_than_none(2) ? arguments.text(2) : "";
  if (path.find(',') != std::string::npos) meter.fail("sort: several attributes are not supported");
  const std::vector<Value> items = to_vector(operand, meter);
  std::vector<Value> keys;
  keys.reserve(items.size());
  for (const Value& item : items) {
    const Value key = path.empty() ? item : attribute_of(item, path, meter);
    keys.push_back(key_of(key, arguments.flag(1), meter));
  }
  return sorted_by(keys, items, arguments.flag(0), meter);
}

Value dictsort(const Value& operand, const Bound&, Meter& meter) {
  if (operand.dict() == nullptr) refuse(operand, "dictsort: expected a mapping", meter);
  std::vector<Value> items, keys;
  for (const auto& [key, value] : operand.dict()->entries()) {
    items.push_back(make_tuple({key, value}, meter));
    keys.push_back(key_of(key, false, meter));
  }
  return sorted_by(keys, items, false, meter);
}

template <bool largest>
Value extreme(const Value& operand, const Bound&, Meter& meter) {
  Item best, best_key;
  Cursor cursor(operand, meter);
  while (Item item = cursor.next()) {
    Value key = key_of(*item, false, meter);
    const bool better = !best || (largest ? less(*best_key, key, meter) : less(key, *best_key, meter));
    if (!better) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best ? *best : Value::undefined("No aggregated item, sequence was empty.");
}

constexpr BuiltIn kSequenceFilters[] = {{"map", {kAll}, map},
                                        {"select", {kAll}, choose<true, false>},
                                        {"reject", {kAll}, choose<false, false>},
                                        {"selectattr", {kAll}, choose<true, true>},
                                        {"rejectattr", {kAll}, choose<false, true>},
                                        {"first", {}, first},
                                        {"last", {}, last},
                                        {"reverse", {}, reverse},
                                        {"list", {}, list},
                                        {"join", {"d"}, join},
                                        {"items", {}, items},
                                        {"unique", {}, unique},
                                        {"sort", {"reverse", "case_sensitive", "attribute"}, sort},
                                        {"dictsort", {}, dictsort},
                                        {"min", {}, extreme<false>},
                                        {"max", {}, extreme<true>}};

}  // namespace

std::span<const BuiltIn> sequence_filters() { return kSequenceFilters; }

}  // namespace fathom::jinja
