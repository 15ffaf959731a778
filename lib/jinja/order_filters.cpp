// Filters that order or compare items: sort, dictsort, min, max, sum.
#include <algorithm>
#include <numeric>

#include "jinja/arguments.h"
#include "jinja/attribute_path.h"
#include "jinja/filter_table.h"
#include "jinja/operators.h"

namespace fathom::jinja {
namespace {

Value key_of(const Value& value, bool case_sensitive, Meter& meter) {
  return case_sensitive ? value : without_case(value, meter);
}

// Equal items keep their order, reversed or not.
std::vector<Value> sorted_by(const std::vector<Value>& items, const std::vector<Value>& keys, bool reverse,
                             Meter& meter) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reverse ? less(keys[b], keys[a], meter) : less(keys[a], keys[b], meter);
  });
  std::vector<Value> sorted;
  for (size_t index : order) sorted.push_back(items[index]);
  return sorted;
}

// "name,age": the attributes to sort by, one after another.
std::vector<AttributePath> paths_of(const Value& attribute, Meter& meter) {
  std::vector<AttributePath> paths;
  const std::string* text = attribute.text();
  if (text == nullptr) return {AttributePath(attribute, meter)};
  for (size_t begin = 0; begin <= text->size();) {
    const size_t end = std::min(text->find(',', begin), text->size());
    paths.emplace_back(make_text(text->substr(begin, end - begin), meter), meter);
    begin = end + 1;
  }
  return paths;
}

Value sort(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("sort", std::move(arguments), {"reverse", "case_sensitive", "attribute"}, meter);
  const std::vector<AttributePath> paths = paths_of(signature.value(2, Value()), meter);
  const std::vector<Value> items = to_vector(operand, meter);
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> parts;
    for (const AttributePath& path : paths) {
      parts.push_back(key_of(path.look_up(item, Value(), meter), signature.flag(1, false), meter));
    }
    keys.push_back(make_list(std::move(parts), meter));
  }
  return make_list(sorted_by(items, keys, signature.flag(0, false), meter), meter);
}

Value dictsort(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("dictsort", std::move(arguments), {"case_sensitive", "by", "reverse"}, meter);
  const std::string by = signature.text(1, "key");
  if (by != "key" && by != "value") meter.fail("You can only sort by either \"key\" or \"value\"");
  if (operand.dict() == nullptr) refuse(operand, "dictsort: expected a mapping", meter);
  std::vector<Value> items, keys;
  for (const auto& [key, value] : operand.dict()->entries()) {
    items.push_back(make_tuple({key, value}, meter));
    keys.push_back(key_of(by == "key" ? key : value, signature.flag(0, false), meter));
  }
  return make_list(sorted_by(items, keys, signature.flag(2, false), meter), meter);
}

template <bool largest>
Value extreme(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature(largest ? "max" : "min", std::move(arguments), {"case_sensitive", "attribute"}, meter);
  const AttributePath path(signature.value(1, Value()), meter);
  std::optional<Value> best, best_key;
  Cursor cursor(operand, meter);
  while (std::optional<Value> item = cursor.next()) {
    Value key = key_of(path.look_up(*item, Value(), meter), signature.flag(0, false), meter);
    const bool better = !best || (largest ? less(*best_key, key, meter) : less(key, *best_key, meter));
    if (!better) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best ? *best : Value::undefined("No aggregated item, sequence was empty.");
}

Value sum(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("sum", std::move(arguments), {"attribute", "start"}, meter);
  const AttributePath path(signature.value(0, Value()), meter);
  Value total = signature.value(1, Value(Value::Data(int64_t{0})));
  if (total.text() != nullptr) meter.fail("sum: expected numbers or lists, not strings");
  Cursor cursor(operand, meter);
  while (const std::optional<Value> item = cursor.next()) {
    total = arithmetic(BinaryOperator::kAdd, total, path.look_up(*item, Value(), meter), meter);
  }
  return total;
}

constexpr FilterEntry kFilters[] = {
    {"sort", sort}, {"dictsort", dictsort}, {"min", extreme<false>}, {"max", extreme<true>}, {"sum", sum}};

}  // namespace

std::span<const FilterEntry> order_filters() { return kFilters; }

}  // namespace fathom::jinja
