// Runs a syntax tree: statements write text, expressions make values.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/filters.h"
#include "jinja/rendered.h"
#include "jinja/scope.h"

namespace fathom::jinja {

class Evaluator {
 public:
  Evaluator(const Syntax& syntax, Meter& meter, std::optional<std::chrono::local_seconds> now = std::nullopt)
      : syntax_(syntax), meter_(meter), now_(now), root_(nullptr) {}

  // A variable of the template, of a name that has none yet and outlives this.
  void define(std::string_view name, Value value) { root_.add(name, std::move(value), meter_); }
  // Rendered::visits tells of the list's items that are mappings.
  void trace(const Value& list);
  Rendered run();

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // execute.cpp
  Flow execute(const Body& body, Scope& scope);
  Flow execute(const Statement& statement, Scope& scope);
  Flow run_statement(const Text& node, Scope& scope);
  Flow run_statement(const Print& node, Scope& scope);
  Flow run_statement(const If& node, Scope& scope);
  Flow run_statement(const For& node, Scope& scope);
  Flow run_statement(const Set& node, Scope& scope);
  Flow run_statement(const SetBlock& node, Scope& scope);
  Flow run_statement(const FilterBlock& node, Scope& scope);
  Flow run_statement(const With& node, Scope& scope);
  Flow run_statement(const Generation& node, Scope& scope);
  Flow run_statement(const std::unique_ptr<const MacroStatement>& node, Scope& scope);
  Flow run_statement(const Jump& node, Scope& scope);
  void write(std::string_view text);
  Flow capture(const Body& body, Scope& scope, std::string& text);  // what the body writes, kept from the output
  Value filtered(const ExpressionPtr& filters, std::string text, Scope& scope);
  void assign(const Target& target, const Value& value, Scope& scope);
  Value chosen_items(const For& node, const Scope& scope);  // those that satisfy the loop's condition
  Flow visit(const For& node, const Value& item, Scope& inner);

  // evaluate.cpp
  Value evaluate(const Expression& expression, const Scope& scope);
  Value value_of(const Literal& node, const Scope& scope);
  Value value_of(const Name& node, const Scope& scope);
  Value value_of(const Captured& node, const Scope& scope);
  Value value_of(const SequenceLiteral& node, const Scope& scope);
  Value value_of(const DictLiteral& node, const Scope& scope);
  Value value_of(const Attribute& node, const Scope& scope);
  Value value_of(const Item& node, const Scope& scope);
  Value value_of(const Slice& node, const Scope& scope);
  Value value_of(const Call& node, const Scope& scope);
  Value value_of(const FilterCall& node, const Scope& scope);
  Value value_of(const TestCall& node, const Scope& scope);
  Value value_of(const Unary& node, const Scope& scope);
  Value value_of(const Binary& node, const Scope& scope);
  Value value_of(const Concatenation& node, const Scope& scope);
  Value value_of(const Compare& node, const Scope& scope);
  Value value_of(const Conditional& node, const Scope& scope);
  CallArguments arguments_of(const Arguments& arguments, const Scope& scope);
  Value call(const Value& callee, CallArguments arguments);
  Value call_macro(const MacroStatement& macro, CallArguments arguments);
  Value call_function(Function function, CallArguments arguments);
  Value make_namespace(CallArguments arguments);
  Value current_date(const std::string& format);

  const Syntax& syntax_;
  Meter& meter_;
  std::optional<std::chrono::local_seconds> now_;       // of strftime_now
  std::vector<std::unique_ptr<Namespace>> namespaces_;  // outlive all values
  Scope root_;
  std::unordered_map<const Dict*, size_t> traced_;  // place in the traced list
  Rendered result_;
  std::string* output_ = nullptr;
  std::string captured_;
};

}  // namespace fathom::jinja
