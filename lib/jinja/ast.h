// A parsed template: statements that write text, and the expressions in them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/value.h"

namespace fathom::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<const Expression>;
using Body = std::vector<Statement>;

struct Arguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional, more_named;  // behind * and **; may be null
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct SequenceLiteral {
  Sequence::Flavor flavor;
  std::vector<ExpressionPtr> items;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Item {
  ExpressionPtr object, index;
};
struct Slice {
  ExpressionPtr object, start, stop, step;  // bounds may be null
};
struct Call {
  ExpressionPtr callee;
  Arguments arguments;
};
struct Filter {
  std::string name;
  Arguments arguments;
};
struct FilterCall {
  ExpressionPtr operand;
  Filter filter;
};
struct TestCall {
  ExpressionPtr operand;
  std::string name;
  Arguments arguments;
};
enum class UnaryOperator { kNot, kMinus, kPlus };
struct Unary {
  UnaryOperator operation;
  ExpressionPtr operand;
};
enum class BinaryOperator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kAnd,
  kOr,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn  // comparisons
};
struct Binary {
  BinaryOperator operation;
  ExpressionPtr left, right;
};
struct Concatenation {  // a ~ b ~ c
  std::vector<ExpressionPtr> parts;
};
struct Conditional {
  ExpressionPtr condition, then, otherwise;  // otherwise may be null
};

struct Expression {
  std::variant<Literal, Name, SequenceLiteral, DictLiteral, Attribute, Item, Slice, Call, FilterCall, TestCall, Unary,
               Binary, Concatenation, Conditional>
      node;
  int line = 1;
};

// What an assignment writes to: a name, an attribute of a namespace, or several targets.
struct Target {
  std::string name;
  std::string attribute;  // empty: the name itself
  std::vector<Target> parts;
  bool unpacks = false;
};

struct Text {
  std::string text;
};
struct Print {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable, condition;  // condition may be null
  Body body, otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct CapturingBlock {  // {% set name | filter %}…{% endset %} and, if it writes, {% filter … %}…{% endfilter %}
  bool writes;
  Target target;
  std::vector<Filter> filters;
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> values;
  Body body;
};
struct Generation {
  Body body;
};
constexpr const char* kCaller = "caller";  // the name under which a macro finds the call block that calls it
struct MacroStatement {
  std::string name;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // with their defaults, which may be null
  Body body;
  bool uses_caller = false;  // it may be called by a call block
};
struct CallBlock {  // {% call(…) name(…) %}…{% endcall %}: calls with its body as the macro `caller`
  std::unique_ptr<const MacroStatement> caller;
  ExpressionPtr call;
};
enum class Jump { kBreak, kContinue };

struct Statement {
  std::variant<Text, Print, If, For, Set, CapturingBlock, With, Generation, std::unique_ptr<const MacroStatement>,
               CallBlock, Jump>
      node;
  int line = 1;
};

struct Syntax {
  Body body;
  std::vector<std::string> literals;  // the texts in quotes
  bool has_generation = false;
};

}  // namespace fathom::jinja
