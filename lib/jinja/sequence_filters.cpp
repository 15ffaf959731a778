// Filters over items: map, select and the like are as lazy as Jinja's generators.
#include <algorithm>
#include <charconv>
#include <memory>
#include <numeric>

#include "jinja/filters.h"
#include "jinja/operators.h"
#include "jinja/show.h"
#include "jinja/text.h"

namespace fathom::jinja {
namespace {

using Item = std::optional<Value>;

// "user.name.0": what filters like map and sort look up in each item; none for the item itself.
class AttributePath {
 public:
  AttributePath(const Value& path, Meter& meter) {
    if (path.is<None>()) return;
    if (path.text() == nullptr) {
      parts_.push_back(path);
      return;
    }
    const std::string_view text = *path.text();
    meter.make(text.size() * 4);
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find('.', begin), text.size());
      parts_.push_back(part_of(text.substr(begin, end - begin), meter));
      begin = end + 1;
    }
  }
  // fallback: what stands for what is undefined; none: nothing does.
  Value look_up(const Value& item, const Value& fallback, Meter& meter) const {
    Value value = item;
    for (const Value& part : parts_) {
      value = get_item(value, part, meter);
      if (value.is<Undefined>() && !fallback.is<None>()) value = fallback;
    }
    return value;
  }

 private:
  static Value part_of(std::string_view name, Meter& meter) {
    int64_t place = 0;
    const bool is_place = !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos &&
                          std::from_chars(name.data(), name.data() + name.size(), place).ec == std::errc();
    return is_place ? Value(Value::Data(place)) : make_text(std::string(name), meter);
  }

  std::vector<Value> parts_;
};

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

std::string name_at(const CallArguments& arguments, size_t place, Meter& meter) {
  const Value& name = arguments.positional[place];
  if (name.text() == nullptr) refuse(name, "expected the name of a filter or test", meter);
  return *name.text();
}

Value map(const Value& operand, const Bound& arguments, Meter& meter) {
  const CallArguments& all = arguments.all();
  if (all.positional.empty()) {
    const Bound by_attribute("map", all, {"attribute", "default"}, meter);
    const auto change = [path = AttributePath(by_attribute.value(0), meter), fallback = by_attribute.value(1, Value()),
                         &meter](const Value& item) -> Item { return path.look_up(item, fallback, meter); };
    return over_items(operand, deepest(all), change, meter);
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
  if (all.positional.size() < place) meter.fail("Missing parameter for attribute name");
  const AttributePath path(by_attribute ? all.positional[0] : Value(), meter);
  std::optional<std::string> test;
  if (all.positional.size() > place) test = name_at(all, place, meter);
  const auto change = [path, test, rest = rest_of(all, test ? place + 1 : place), &meter](const Value& item) -> Item {
    const Value value = path.look_up(item, Value(), meter);
    const bool holds = test ? apply_test(*test, value, rest, meter) : truth(value);
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
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.front();
}

Value reverse(const Value& operand, const Bound&, Meter& meter) {
  if (operand.text() != nullptr) return get_slice(operand, Value(), Value(), Value(Value::Data(int64_t{-1})), meter);
  const Value items = make_list(reversed(operand, "reverse", meter), meter);
  const auto unchanged = [](const Value& item) -> Item { return item; };
  return over_items(items, 0, unchanged, meter);
}

Value list(const Value& operand, const Bound&, Meter& meter) { return make_list(to_vector(operand, meter), meter); }

Value join(const Value& operand, const Bound& arguments, Meter& meter) {
  const std::string separator = to_text(arguments.value(0, make_text("", meter)), meter);
  const AttributePath path(arguments.value(1, Value()), meter);
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

Value unique(const Value& operand, const Bound& arguments, Meter& meter) {
  const auto change = [path = AttributePath(arguments.value(1, Value()), meter), case_sensitive = arguments.flag(0),
                       seen = std::make_shared<Dict>(), &meter](const Value& item) -> Item {
    const Value key = key_of(path.look_up(item, Value(), meter), case_sensitive, meter);
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
  for (size_t index : order) sorted.push_back(items[index]);
  return make_list(std::move(sorted), meter);
}

Value sort(const Value& operand, const Bound& arguments, Meter& meter) {
  const Value attribute = arguments.value(2, Value());
  if (attribute.text() != nullptr && attribute.text()->find(',') != std::string::npos) {
    meter.fail("sort: several attributes are not supported");
  }
  const AttributePath path(attribute, meter);
  const std::vector<Value> items = to_vector(operand, meter);
  std::vector<Value> keys;
  for (const Value& item : items) {
    keys.push_back(key_of(path.look_up(item, Value(), meter), arguments.flag(1), meter));
  }
  return sorted_by(keys, items, arguments.flag(0), meter);
}

Value dictsort(const Value& operand, const Bound& arguments, Meter& meter) {
  const std::string by = arguments.has(1) ? arguments.text(1) : "key";
  if (by != "key" && by != "value") meter.fail("You can only sort by either \"key\" or \"value\"");
  if (operand.dict() == nullptr) refuse(operand, "dictsort: expected a mapping", meter);
  std::vector<Value> items, keys;
  for (const auto& [key, value] : operand.dict()->entries()) {
    items.push_back(make_tuple({key, value}, meter));
    keys.push_back(key_of(by == "key" ? key : value, arguments.flag(0), meter));
  }
  return sorted_by(keys, items, arguments.flag(2), meter);
}

template <bool largest>
Value extreme(const Value& operand, const Bound& arguments, Meter& meter) {
  const AttributePath path(arguments.value(1, Value()), meter);
  Item best, best_key;
  Cursor cursor(operand, meter);
  while (Item item = cursor.next()) {
    Value key = key_of(path.look_up(*item, Value(), meter), arguments.flag(0), meter);
    const bool better = !best || (largest ? less(*best_key, key, meter) : less(key, *best_key, meter));
    if (!better) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best ? *best : Value::undefined("No aggregated item, sequence was empty.");
}

constexpr BuiltIn kFilters[] = {{"map", {kAll}, map},
                                {"select", {kAll}, choose<true, false>},
                                {"reject", {kAll}, choose<false, false>},
                                {"selectattr", {kAll}, choose<true, true>},
                                {"rejectattr", {kAll}, choose<false, true>},
                                {"first", {}, first},
                                {"last", {}, last},
                                {"reverse", {}, reverse},
                                {"list", {}, list},
                                {"join", {"d", "attribute"}, join},
                                {"items", {}, items},
                                {"unique", {"case_sensitive", "attribute"}, unique},
                                {"sort", {"reverse", "case_sensitive", "attribute"}, sort},
                                {"dictsort", {"case_sensitive", "by", "reverse"}, dictsort},
                                {"min", {"case_sensitive", "attribute"}, extreme<false>},
                                {"max", {"case_sensitive", "attribute"}, extreme<true>}};

}  // namespace

std::span<const BuiltIn> sequence_filters() { return kFilters; }

}  // namespace fathom::jinja
