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

// The first argument, which is a text, taken out.
std::string take_name(CallArguments& arguments, const char* missing, Meter& meter) {
  if (arguments.positional.empty()) meter.fail(missing);
  const Value first = std::move(arguments.positional.front());
  arguments.positional.erase(arguments.positional.begin());
  if (first.text() == nullptr) refuse(first, "expected the name of a filter or test", meter);
  return *first.text();
}

Value map(const Value& operand, CallArguments arguments, Meter& meter) {
  const bool by_attribute = arguments.positional.empty() && !arguments.named.empty();
  const int depth = deepest(arguments);
  if (by_attribute) {
    const Signature signature("map", std::move(arguments), {"attribute", "default"}, meter);
    const auto change = [path = AttributePath(signature.value(0), meter), fallback = signature.value(1, Value()),
                         &meter](const Value& item) -> Item { return path.look_up(item, fallback, meter); };
    return over_items(operand, depth, change, meter);
  }
  const std::string name = take_name(arguments, "map requires a filter argument", meter);
  const auto change = [name, arguments, &meter](const Value& item) -> Item {
    return apply_filter(name, item, arguments, meter);
  };
  return over_items(operand, depth, change, meter);
}

// select, reject (of the items) and selectattr, rejectattr (of an attribute of theirs).
template <bool keeps, bool by_attribute>
Value choose(const Value& operand, CallArguments arguments, Meter& meter) {
  auto& positional = arguments.positional;
  Value path_value;
  if (by_attribute) {
    if (positional.empty()) meter.fail("Missing parameter for attribute name");
    path_value = positional.front();
    positional.erase(positional.begin());
  }
  std::optional<std::string> test;
  if (!positional.empty()) test = take_name(arguments, "", meter);
  const auto change = [path = AttributePath(path_value, meter), test, arguments, &meter](const Value& item) -> Item {
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
std::vector<Value> reversed(const Value& operand, const char* filter, Meter& meter) {
  if (!length_of(operand, meter)) refuse(operand, std::string(filter) + ": expected a list", meter);
  std::vector<Value> items = to_vector(operand, meter);
  std::reverse(items.begin(), items.end());
  return items;
}

Value last(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("last", std::move(arguments), {}, meter);
  const std::vector<Value> items = reversed(operand, "last", meter);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.front();
}

Value reverse(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("reverse", std::move(arguments), {}, meter);
  if (operand.text() != nullptr) return get_slice(operand, Value(), Value(), Value(Value::Data(int64_t{-1})), meter);
  const Value items = make_list(reversed(operand, "reverse", meter), meter);
  const auto unchanged = [](const Value& item) -> Item { return item; };
  return over_items(items, 0, unchanged, meter);
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

// What filters compare by: texts in lower case, unless they are told to mind it.
Value key_of(const Value& value, bool case_sensitive, Meter& meter) {
  const bool changes = !case_sensitive && value.text() != nullptr;
  return changes ? make_text(lower(*value.text(), meter), meter) : value;
}

Value unique(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("unique", std::move(arguments), {"case_sensitive", "attribute"}, meter);
  const auto change = [path = AttributePath(signature.value(1, Value()), meter),
                       case_sensitive = signature.flag(0, false), seen = std::make_shared<Dict>(),
                       &meter](const Value& item) -> Item {
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

Value sort(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("sort", std::move(arguments), {"reverse", "case_sensitive", "attribute"}, meter);
  const Value attribute = signature.value(2, Value());
  if (attribute.text() != nullptr && attribute.text()->find(',') != std::string::npos) {
    meter.fail("sort: several attributes are not supported");
  }
  const AttributePath path(attribute, meter);
  const std::vector<Value> items = to_vector(operand, meter);
  std::vector<Value> keys;
  for (const Value& item : items) {
    keys.push_back(key_of(path.look_up(item, Value(), meter), signature.flag(1, false), meter));
  }
  return sorted_by(keys, items, signature.flag(0, false), meter);
}

Value dictsort(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("dictsort", std::move(arguments), {"case_sensitive", "by", "reverse"}, meter);
  const std::string by = signature.has(1) ? signature.text(1) : "key";
  if (by != "key" && by != "value") meter.fail("You can only sort by either \"key\" or \"value\"");
  if (operand.dict() == nullptr) refuse(operand, "dictsort: expected a mapping", meter);
  std::vector<Value> items, keys;
  for (const auto& [key, value] : operand.dict()->entries()) {
    items.push_back(make_tuple({key, value}, meter));
    keys.push_back(key_of(by == "key" ? key : value, signature.flag(0, false), meter));
  }
  return sorted_by(keys, items, signature.flag(2, false), meter);
}

template <bool largest>
Value extreme(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature(largest ? "max" : "min", std::move(arguments), {"case_sensitive", "attribute"}, meter);
  const AttributePath path(signature.value(1, Value()), meter);
  Item best, best_key;
  Cursor cursor(operand, meter);
  while (Item item = cursor.next()) {
    Value key = key_of(path.look_up(*item, Value(), meter), signature.flag(0, false), meter);
    const bool better = !best || (largest ? less(*best_key, key, meter) : less(key, *best_key, meter));
    if (!better) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best ? *best : Value::undefined("No aggregated item, sequence was empty.");
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
                                    {"unique", unique},
                                    {"sort", sort},
                                    {"dictsort", dictsort},
                                    {"min", extreme<false>},
                                    {"max", extreme<true>}};

}  // namespace

std::span<const FilterEntry> sequence_filters() { return kFilters; }

}  // namespace fathom::jinja
