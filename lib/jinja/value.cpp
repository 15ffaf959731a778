// Makers of values, equality, and the ways to visit what values hold.
#include "jinja/value.h"

#include <algorithm>
#include <cmath>

#include "jinja/loop.h"
#include "jinja/text.h"

namespace fathom::jinja {
namespace {

void check_depth(int depth, Meter& meter) {
  if (depth > kDeepestValue) meter.fail("values nested deeper than " + std::to_string(kDeepestValue) + " levels");
}

bool same_items(const std::vector<Value>& left, const std::vector<Value>& right, Meter& meter) {
  return left.size() == right.size() && std::equal(left.begin(), left.end(), right.begin(),
                                                   [&](const Value& a, const Value& b) { return equal(a, b, meter); });
}

bool same_entries(const Dict& left, const Dict& right, Meter& meter) {
  if (left.entries().size() != right.entries().size()) return false;
  return std::all_of(left.entries().begin(), left.entries().end(), [&](const auto& entry) {
    const Value* other = right.find(entry.first, meter);
    return other != nullptr && equal(entry.second, *other, meter);
  });
}

// 2^53 + 1 is not 2^53, though it is as a double.
bool same_number(int64_t left, double right) {
  return right >= -0x1p63 && right < 0x1p63 && std::trunc(right) == right && static_cast<int64_t>(right) == left;
}

}  // namespace

int64_t Dict::index_of(const Value& key, Meter& meter) const {
  if (const std::string* text = key.text()) {
    meter.read(text->size());
    const auto found = by_text_.find(*text);
    return found == by_text_.end() ? -1 : static_cast<int64_t>(found->second);
  }
  if (by_text_.size() == entries_.size()) return -1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].first.text() == nullptr && equal(entries_[i].first, key, meter)) return static_cast<int64_t>(i);
  }
  return -1;
}

const Value* Dict::find(const Value& key, Meter& meter) const {
  const int64_t index = index_of(key, meter);
  return index < 0 ? nullptr : &entries_[index].second;
}

void Dict::set(const Value& key, Value value, Meter& meter) {
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  check_depth(depth_, meter);
  const int64_t index = index_of(key, meter);
  if (index >= 0) {
    entries_[index].second = std::move(value);
    return;
  }
  meter.make(4 * sizeof(Value));
  if (const std::string* text = key.text()) {
    meter.make(text->size());
    by_text_.emplace(*text, entries_.size());
  }
  entries_.emplace_back(key, std::move(value));
}

Value Value::undefined(std::string message) {
  return Value(Data(Undefined{std::make_shared<const std::string>(std::move(message))}));
}

const Sequence* Value::sequence() const {
  const auto* found = get_if<std::shared_ptr<const Sequence>>();
  return found ? found->get() : nullptr;
}

const Dict* Value::dict() const {
  const auto* found = get_if<std::shared_ptr<const Dict>>();
  return found ? found->get() : nullptr;
}

const std::string* Value::text() const {
  if (const auto* text = get_if<Text>()) return text->get();
  if (const auto* markup = get_if<Markup>()) return markup->text.get();
  return nullptr;
}

std::optional<int64_t> Value::integer() const {
  if (const auto* value = get_if<int64_t>()) return *value;
  if (const auto* value = get_if<bool>()) return *value ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const auto* value = get_if<double>()) return *value;
  const std::optional<int64_t> whole = integer();
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

bool Value::is_sequence(Sequence::Flavor flavor) const {
  const Sequence* found = sequence();
  return found != nullptr && found->flavor == flavor;
}

bool Value::is_indexed() const {
  return text() != nullptr || (sequence() != nullptr && sequence()->flavor != Sequence::Flavor::kView);
}

int Value::depth() const {
  if (const Sequence* found = sequence()) return found->depth;
  if (const Dict* found = dict()) return found->depth();
  if (const auto* found = get_if<std::shared_ptr<Iterator>>()) return (*found)->depth;
  if (const auto* found = get_if<std::shared_ptr<Loop>>()) return (*found)->depth;
  if (const auto* found = get_if<std::shared_ptr<const Method>>()) return (*found)->receiver.depth() + 1;
  return 0;
}

Value make_text(std::string text, Meter& meter) {
  meter.make(text.size() + sizeof(std::string));
  return Value(std::make_shared<const std::string>(std::move(text)));
}

Value make_markup(std::string text, Meter& meter) {
  meter.make(text.size() + sizeof(std::string));
  return Value(Markup{std::make_shared<const std::string>(std::move(text))});
}

Value make_text_like(const Value& source, std::string text, Meter& meter) {
  return source.is<Markup>() ? make_markup(std::move(text), meter) : make_text(std::move(text), meter);
}

Value make_sequence(std::vector<Value> items, Sequence::Flavor flavor, Meter& meter) {
  meter.make((items.size() + 2) * sizeof(Value));
  Sequence sequence;
  for (const Value& item : items) sequence.depth = std::max(sequence.depth, item.depth() + 1);
  check_depth(sequence.depth, meter);
  sequence.items = std::move(items);
  sequence.flavor = flavor;
  return Value(std::make_shared<const Sequence>(std::move(sequence)));
}

Value make_list(std::vector<Value> items, Meter& meter) {
  return make_sequence(std::move(items), Sequence::Flavor::kList, meter);
}

Value make_tuple(std::vector<Value> items, Meter& meter) {
  return make_sequence(std::move(items), Sequence::Flavor::kTuple, meter);
}

Value make_dict(Dict dict, Meter& meter) {
  check_depth(dict.depth(), meter);
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

Value make_iterator(std::function<std::optional<Value>()> next, int depth, Meter& meter) {
  meter.make(8 * sizeof(Value));
  check_depth(depth, meter);
  return Value(std::make_shared<Iterator>(Iterator{std::move(next), depth}));
}

bool truth(const Value& value) {
  if (const auto* flag = value.get_if<bool>()) return *flag;
  if (const auto number = value.number()) return *number != 0;
  if (const std::string* text = value.text()) return !text->empty();
  if (const Sequence* sequence = value.sequence()) return !sequence->items.empty();
  if (const Dict* dict = value.dict()) return !dict->entries().empty();
  return !value.is<None>() && !value.is<Undefined>();
}

std::string type_name(const Value& value) {
  if (value.is<Undefined>()) return "Undefined";
  if (value.is<None>()) return "NoneType";
  if (value.is<bool>()) return "bool";
  if (value.is<int64_t>()) return "int";
  if (value.is<double>()) return "float";
  if (value.is<Value::Text>()) return "str";
  if (value.is<Markup>()) return "Markup";
  if (const Sequence* sequence = value.sequence()) {
    constexpr const char* kNames[] = {"list", "tuple", "range", "dict view"};
    return kNames[static_cast<int>(sequence->flavor)];
  }
  if (value.dict() != nullptr) return "dict";
  if (value.is<std::shared_ptr<Iterator>>()) return "generator";
  if (value.is<std::shared_ptr<Loop>>()) return "LoopContext";
  if (value.is<Namespace*>()) return "Namespace";
  return value.is<const MacroStatement*>() || value.is<const Caller*>() ? "Macro" : "function";
}

bool equal(const Value& left, const Value& right, Meter& meter) {
  meter.step();
  if (left.is<Undefined>() || left.is<None>()) {
    return left.is<Undefined>() ? right.is<Undefined>() : right.is<None>();
  }
  if (const auto a = left.number()) {
    const auto b = right.number();
    if (!b) return false;
    const auto whole_a = left.integer(), whole_b = right.integer();
    if (whole_a && whole_b) return *whole_a == *whole_b;
    if (whole_a) return same_number(*whole_a, *b);
    if (whole_b) return same_number(*whole_b, *a);
    return *a == *b;
  }
  if (const std::string* text = left.text()) {
    const std::string* other = right.text();
    if (other == nullptr || text->size() != other->size()) return false;
    meter.read(text->size());
    return *text == *other;
  }
  if (const Sequence* sequence = left.sequence()) {
    const Sequence* other = right.sequence();
    if (other == nullptr || other->flavor != sequence->flavor) return false;
    if (sequence->flavor == Sequence::Flavor::kView)
      meter.fail("comparing keys(), values() or items() is not supported");
    return sequence == other || same_items(sequence->items, other->items, meter);
  }
  if (const Dict* dict = left.dict()) {
    const Dict* other = right.dict();
    return other != nullptr && same_entries(*dict, *other, meter);
  }
  if (const auto* space = left.get_if<Namespace*>()) {
    const auto* other = right.get_if<Namespace*>();
    return other != nullptr && *space == *other;
  }
  return false;
}

bool is_hashable(const Value& value) { return value.sequence() == nullptr && value.dict() == nullptr; }

void refuse(const Value& value, const std::string& what, Meter& meter) {
  if (const auto* undefined = value.get_if<Undefined>()) meter.fail(*undefined->message);
  meter.fail(what + ", got a value of type " + type_name(value));
}

bool Cursor::can_visit(const Value& value) {
  return value.is<Undefined>() || value.text() != nullptr || value.sequence() != nullptr || value.dict() != nullptr ||
         value.is<std::shared_ptr<Iterator>>() || value.is<std::shared_ptr<Loop>>();
}

Cursor::Cursor(const Value& value, Meter& meter) : value_(value), meter_(meter) {
  if (!can_visit(value) || value.is<std::shared_ptr<Loop>>())
    refuse(value, "expected something to iterate over", meter);
}

std::optional<Value> Cursor::next() {
  meter_.step();
  if (const Sequence* sequence = value_.sequence()) {
    return at_ < sequence->items.size() ? std::optional(sequence->items[at_++]) : std::nullopt;
  }
  if (const Dict* dict = value_.dict()) {
    return at_ < dict->entries().size() ? std::optional(dict->entries()[at_++].first) : std::nullopt;
  }
  if (const std::string* text = value_.text()) {
    if (at_ >= text->size()) return std::nullopt;
    const size_t size = character_size(*text, at_);
    at_ += size;
    return make_text(text->substr(at_ - size, size), meter_);
  }
  if (const auto* iterator = value_.get_if<std::shared_ptr<Iterator>>()) return (*iterator)->next();
  return std::nullopt;  // undefined
}

std::vector<Value> to_vector(const Value& value, Meter& meter) {
  std::vector<Value> items;
  Cursor cursor(value, meter);
  while (std::optional<Value> item = cursor.next()) {
    meter.make(sizeof(Value));
    items.push_back(std::move(*item));
  }
  return items;
}

std::optional<int64_t> length_of(const Value& value, Meter& meter) {
  if (value.is<Undefined>()) return 0;
  if (const std::string* text = value.text()) {
    meter.read(text->size());
    return count_characters(*text);
  }
  if (const Sequence* sequence = value.sequence()) return static_cast<int64_t>(sequence->items.size());
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->entries().size());
  return std::nullopt;
}

}  // namespace fathom::jinja
