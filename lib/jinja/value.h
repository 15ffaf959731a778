// What a template computes with: Python's values, immutable but for namespaces.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/meter.h"

namespace fathom::jinja {

class Value;
struct MacroStatement;
struct Caller;  // the body of a call block, as a macro

struct None {};
// Printed as nothing, false, iterated as empty; anything else fails with `message`.
struct Undefined {
  std::shared_ptr<const std::string> message;
};
struct Markup {  // what |safe and |escape return: other text is escaped before it becomes a part of it
  std::shared_ptr<const std::string> text;
};
struct Sequence {
  enum class Flavor { kList, kTuple, kRange, kView };  // a view: what a dict's keys(), values() and items() return
  std::vector<Value> items;
  Flavor flavor = Flavor::kList;
  int depth = 1;  // 1 + the deepest item's
};
class Dict {
 public:
  const Value* find(const Value& key, Meter& meter) const;
  void set(const Value& key, Value value, Meter& meter);
  const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }
  int depth() const { return depth_; }

 private:
  int64_t index_of(const Value& key, Meter& meter) const;  // -1: absent
  std::vector<std::pair<Value, Value>> entries_;
  std::unordered_map<std::string, size_t> by_text_;
  int depth_ = 1;
};
struct Namespace {
  Dict attributes;
};
// A generator: each item once.
struct Iterator {
  std::function<std::optional<Value>()> next;
  int depth = 1;
};
// The variable `loop`.
struct Loop;
enum class Function { kRange, kNamespace, kDict, kRaiseException, kStrftimeNow };
struct Method;

class Value {
 public:
  using Text = std::shared_ptr<const std::string>;
  // Namespaces, macros and callers belong to the rendering, so that none keeps itself alive.
  using Data = std::variant<Undefined, None, bool, int64_t, double, Text, Markup, std::shared_ptr<const Sequence>,
                            std::shared_ptr<const Dict>, std::shared_ptr<Iterator>, std::shared_ptr<Loop>, Namespace*,
                            const MacroStatement*, const Caller*, Function, std::shared_ptr<const Method>>;

  Value() : data_(None{}) {}
  explicit Value(Data data) : data_(std::move(data)) {}
  static Value undefined(std::string message);

  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&data_);
  }
  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  const Sequence* sequence() const;
  const Dict* dict() const;
  const std::string* text() const;         // of a string, or of what |safe returns
  std::optional<int64_t> integer() const;  // of an integer or a boolean
  std::optional<double> number() const;    // of a float, too
  bool is_sequence(Sequence::Flavor flavor) const;
  bool is_indexed() const;  // a string or a sequence that has places
  int depth() const;

 private:
  Data data_;
};

struct Method {
  Value receiver;
  std::string name;
};

// Makers; each charges what it makes.
Value make_text(std::string text, Meter& meter);
Value make_markup(std::string text, Meter& meter);
Value make_text_like(const Value& source, std::string text, Meter& meter);  // make_markup where the source is one
Value make_sequence(std::vector<Value> items, Sequence::Flavor flavor, Meter& meter);
Value make_list(std::vector<Value> items, Meter& meter);
Value make_tuple(std::vector<Value> items, Meter& meter);
Value make_dict(Dict dict, Meter& meter);
Value make_iterator(std::function<std::optional<Value>()> next, int depth, Meter& meter);

bool truth(const Value& value);
std::string type_name(const Value& value);  // as Python calls it: "str", "NoneType"
bool equal(const Value& left, const Value& right, Meter& meter);
bool is_hashable(const Value& value);  // whether it can be a key
// Fails for an undefined value with what it says of itself, for others with `what` and the type.
[[noreturn]] void refuse(const Value& value, const std::string& what, Meter& meter);

// Visits the items of anything that Python iterates; keys of a mapping, characters of a string.
class Cursor {
 public:
  // Fails for what cannot be iterated.
  Cursor(const Value& value, Meter& meter);
  std::optional<Value> next();
  static bool can_visit(const Value& value);

 private:
  const Value value_;
  Meter& meter_;
  size_t at_ = 0;
};
std::vector<Value> to_vector(const Value& value, Meter& meter);
std::optional<int64_t> length_of(const Value& value, Meter& meter);  // len(); nullopt where Python has none

}  // namespace fathom::jinja
