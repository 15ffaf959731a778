// What a template calls: the arguments of a call, bound to parameters as Python binds them, and tables of what there
// is.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace fathom::jinja {

struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Bound {
 public:
  // names: of the parameters, in order; they outlive this. Fails for arguments that none of them takes. callee: what
  // errors call it.
  Bound(std::string_view callee, CallArguments arguments, std::vector<std::string_view> names, Meter& meter);

  bool has(size_t place) const { return values_[place].has_value(); }
  bool has_more_than_none(size_t place) const { return has(place) && !values_[place]->is<None>(); }
  // The argument, or the fallback where it is not given.
  Value value(size_t place) const;  // fails where it is not given
  Value value(size_t place, const Value& fallback) const;
  std::string text(size_t place) const;
  int64_t integer(size_t place, int64_t fallback) const;
  bool flag(size_t place, bool fallback = false) const;
  const CallArguments& all() const { return all_; }  // of a callee that takes what comes

 private:
  [[noreturn]] void fail(const std::string& what) const { meter_.fail(callee_ + ": " + what); }

  std::string callee_;
  std::vector<std::string_view> names_;
  std::vector<std::optional<Value>> values_;
  CallArguments all_;
  Meter& meter_;
};

// A filter or method.
struct BuiltIn {
  std::string_view name;
  std::array<const char*, 4> parameters;  // kAll: takes what comes
  Value (*apply)(const Value& operand, const Bound& arguments, Meter& meter);

  Value call(const Value& operand, CallArguments arguments, Meter& meter) const;
};
constexpr const char* kAll = "*";

const BuiltIn* find_built_in(std::span<const BuiltIn> table, std::string_view name);  // null: there is none

}  // namespace fathom::jinja
