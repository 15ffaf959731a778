// The variables that a template sees where it stands.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/value.h"

namespace fathom::jinja {

// The variables: each loop, macro and block has its own, over those around it.
class Scope {
 public:
  explicit Scope(const Scope* parent) : parent_(parent) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // The name is not copied: it is the syntax tree's, or that of a variable given to the template.
  void add(std::string_view name, Value value, Meter& meter) {  // a name that this scope does not have
    meter.make(sizeof(values_[0]));
    values_.emplace_back(name, std::move(value));
  }
  void set(std::string_view name, Value value, Meter& meter) {
    meter.step(1 + static_cast<int64_t>(values_.size() / 8));
    for (auto& [known, held] : values_) {
      if (known == name) {
        held = std::move(value);
        return;
      }
    }
    add(name, std::move(value), meter);
  }
  const Value* find(std::string_view name, Meter& meter) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
      meter.step(1 + static_cast<int64_t>(scope->values_.size() / 8));
      for (const auto& [known, value] : scope->values_) {
        if (known == name) return &value;
      }
    }
    return nullptr;
  }

 private:
  const Scope* parent_;
  std::vector<std::pair<std::string_view, Value>> values_;
};

// The body of a call block as a macro. What it sees of the block's place is there as long as that is evaluated.
struct Caller {
  const MacroStatement* body;
  const Scope* around;  // null: the block is over
};

}  // namespace fathom::jinja
