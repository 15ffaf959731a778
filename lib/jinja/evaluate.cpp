// Walks the tree: statements one after another, expressions from the leaves.
#include "jinja/evaluate.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "jinja/built_ins.h"
#include "jinja/functions.h"
#include "jinja/loop.h"
#include "jinja/operators.h"
#include "jinja/scope.h"
#include "jinja/show.h"

namespace fathom::jinja {
namespace {

class Evaluator {
 public:
  Evaluator(const Variables& variables, Meter& meter)
      : meter_(meter), functions_(variables.now, meter), output_(&result_.text) {
    for (const auto& [name, value] : variables.values) root_.add(name, value, meter_);
    const Sequence* items = variables.traced.sequence();
    for (size_t i = 0; items != nullptr && i < items->items.size(); ++i) {
      if (const Dict* item = items->items[i].dict()) traced_.emplace(item, i);
    }
  }
  Rendered run(const Syntax& syntax) {
    execute(syntax.body, root_);
    return std::move(result_);
  }

 private:
  enum class Flow { kNext, kBreak, kContinue };

  void write(std::string_view text) {
    meter_.make(text.size());
    *output_ += text;
  }

  Flow execute(const Body& body, Scope& scope) {
    for (const Statement& statement : body) {
      const Meter::Level level(meter_);
      meter_.step();
      meter_.stand_at(statement.line);
      const Flow flow = std::visit([&](const auto& node) { return run_statement(node, scope); }, statement.node);
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  Flow run_statement(const Text& node, Scope&) {
    write(node.text);
    return Flow::kNext;
  }

  Flow run_statement(const Print& node, Scope& scope) {
    write(to_text(evaluate(*node.value, scope), meter_));
    return Flow::kNext;
  }

  Flow run_statement(const If& node, Scope& scope) {
    for (const auto& [condition, body] : node.branches) {
      if (truth(evaluate(*condition, scope))) return execute(body, scope);
    }
    return execute(node.otherwise, scope);
  }

  // Those items that satisfy the loop's condition, as lazily as Jinja asks for them.
  Value chosen_items(const For& node, const Scope& scope) {
    Value items = evaluate(*node.iterable, scope);
    if (node.condition == nullptr) return items;
    const auto next = [this, &node, &scope, cursor = Cursor(items, meter_)]() mutable -> std::optional<Value> {
      while (std::optional<Value> item = cursor.next()) {
        Scope test(&scope);
        assign(node.target, *item, test);
        if (truth(evaluate(*node.condition, test))) return item;
      }
      return std::nullopt;
    };
    return make_iterator(next, items.depth() + 1, meter_);
  }

  // The body for one item; what it writes is noted where the item is traced.
  Flow visit(const For& node, const Value& item, Scope& inner) {
    assign(node.target, item, inner);
    const auto traced = traced_.empty() ? traced_.end() : traced_.find(item.dict());
    if (traced == traced_.end()) return execute(node.body, inner);
    const size_t begin = output_->size();
    const Flow flow = execute(node.body, inner);
    if (output_->size() > begin) {
      meter_.make(sizeof(Visit));
      result_.visits.push_back({traced->second, begin, output_->size(), output_ != &result_.text});
    }
    return flow;
  }

  Flow run_statement(const For& node, Scope& scope) {
    const auto loop = std::make_shared<Loop>(chosen_items(node, scope), meter_);
    const Value loop_value{Value::Data(loop)};
    bool entered = false;
    while (const std::optional<Value> item = loop->advance()) {
      entered = true;
      Scope inner(&scope);
      inner.set("loop", loop_value, meter_);
      if (visit(node, *item, inner) == Flow::kBreak) break;
    }
    loop->close();
    if (entered) return Flow::kNext;
    Scope inner(&scope);
    return execute(node.otherwise, inner);
  }

  void assign(const Target& target, const Value& value, Scope& scope) {
    if (target.unpacks) return unpack(target, to_vector(value, meter_), scope);
    if (target.attribute.empty()) return scope.set(target.name, value, meter_);
    const Value* space = scope.find(target.name, meter_);
    if (space == nullptr || !space->is<Namespace*>()) meter_.fail("cannot assign attribute on non-namespace object");
    if (target.attribute.starts_with("_")) {
      meter_.fail("a namespace cannot hold the attribute '" + target.attribute + "'");
    }
    (*space->get_if<Namespace*>())->attributes.set(make_text(target.attribute, meter_), value, meter_);
  }
  void unpack(const Target& target, const std::vector<Value>& items, Scope& scope) {
    if (items.size() != target.parts.size()) {
      meter_.fail("expected " + std::to_string(target.parts.size()) + " values to unpack, got " +
                  std::to_string(items.size()));
    }
    for (size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i], scope);
  }

  Flow run_statement(const Set& node, Scope& scope) {
    assign(node.target, evaluate(*node.value, scope), scope);
    return Flow::kNext;
  }

  // What the body writes, kept from the output.
  Flow capture(const Body& body, Scope& scope, std::string& text) {
    std::string* outer = std::exchange(output_, &text);
    const Flow flow = execute(body, scope);
    output_ = outer;
    return flow;
  }

  Flow run_statement(const CapturingBlock& node, Scope& scope) {
    Scope inner(&scope);
    std::string text;
    const Flow flow = capture(node.body, inner, text);
    if (flow != Flow::kNext) return flow;
    Value value = make_text(std::move(text), meter_);
    for (const Filter& filter : node.filters) {
      value = apply_filter(filter.name, value, arguments_of(filter.arguments, inner), meter_);
    }
    node.writes ? write(to_text(value, meter_)) : assign(node.target, value, scope);
    return Flow::kNext;
  }

  Flow run_statement(const With& node, Scope& scope) {
    Scope inner(&scope);
    // As in Jinja, the values do not see each other.
    std::vector<Value> values;
    for (const auto& [target, expression] : node.values) values.push_back(evaluate(*expression, scope));
    for (size_t i = 0; i < values.size(); ++i) assign(node.values[i].first, values[i], inner);
    return execute(node.body, inner);
  }

  Flow run_statement(const Generation& node, Scope& scope) {
    Scope inner(&scope);
    const bool hidden = output_ != &result_.text;
    const size_t start = result_.text.size(), known = result_.generations.size();
    execute(node.body, inner);
    if (hidden) {
      result_.has_hidden_generation = true;
    } else {
      result_.generations.resize(known);  // blocks inside this one are part of it
      result_.generations.emplace_back(start, result_.text.size());
    }
    return Flow::kNext;
  }

  Flow run_statement(const std::unique_ptr<const MacroStatement>& node, Scope& scope) {
    scope.set(node->name, Value(node.get()), meter_);
    return Flow::kNext;
  }

  Flow run_statement(const CallBlock& node, Scope& scope) {
    meter_.make(sizeof(Caller));
    Caller& caller = *callers_.emplace_back(std::make_unique<Caller>(Caller{node.caller.get(), &scope}));
    write(to_text(called(std::get<Call>(node.call->node), scope, &caller), meter_));
    caller.around = nullptr;
    return Flow::kNext;
  }

  Flow run_statement(const Jump& node, Scope&) { return node == Jump::kBreak ? Flow::kBreak : Flow::kContinue; }

  Value evaluate(const Expression& expression, const Scope& scope) {
    const Meter::Level level(meter_);
    meter_.step();
    const int line = meter_.line();
    meter_.stand_at(expression.line);
    Value value = std::visit([&](const auto& node) { return value_of(node, scope); }, expression.node);
    meter_.stand_at(line);
    return value;
  }

  Value value_of(const Literal& node, const Scope&) { return node.value; }

  Value value_of(const Name& node, const Scope& scope) {
    if (const Value* found = scope.find(node.name, meter_)) return *found;
    if (const auto function = function_named(node.name)) return Value(*function);
    for (const char* refused : {"cycler", "joiner", "lipsum", "varargs", "kwargs", "self"}) {
      if (node.name == refused) meter_.fail("'" + node.name + "' is not supported in chat templates");
    }
    return Value::undefined("'" + node.name + "' is undefined");
  }

  Value value_of(const SequenceLiteral& node, const Scope& scope) {
    std::vector<Value> items;
    items.reserve(node.items.size());
    for (const ExpressionPtr& item : node.items) items.push_back(evaluate(*item, scope));
    return make_sequence(std::move(items), node.flavor, meter_);
  }

  Value value_of(const DictLiteral& node, const Scope& scope) {
    Dict dict;
    for (const auto& [key_expression, value_expression] : node.entries) {
      const Value key = evaluate(*key_expression, scope);
      if (!is_hashable(key)) refuse(key, "expected a value that can be a key", meter_);
      dict.set(key, evaluate(*value_expression, scope), meter_);
    }
    return make_dict(std::move(dict), meter_);
  }

  Value value_of(const Attribute& node, const Scope& scope) {
    return get_attribute(evaluate(*node.object, scope), node.name, meter_);
  }

  Value value_of(const Item& node, const Scope& scope) {
    const Value object = evaluate(*node.object, scope);
    return get_item(object, evaluate(*node.index, scope), meter_);
  }

  Value value_of(const Slice& node, const Scope& scope) {
    const Value object = evaluate(*node.object, scope);
    const auto bound = [&](const ExpressionPtr& expression) {
      return expression ? evaluate(*expression, scope) : Value();
    };
    const Value start = bound(node.start), stop = bound(node.stop), step = bound(node.step);
    return get_slice(object, start, stop, step, meter_);
  }

  Value value_of(const FilterCall& node, const Scope& scope) {
    const Value operand = evaluate(*node.operand, scope);
    return apply_filter(node.filter.name, operand, arguments_of(node.filter.arguments, scope), meter_);
  }

  Value value_of(const TestCall& node, const Scope& scope) {
    const Value operand = evaluate(*node.operand, scope);
    return Value(apply_test(node.name, operand, arguments_of(node.arguments, scope), meter_));
  }

  Value value_of(const Unary& node, const Scope& scope) {
    const Value operand = evaluate(*node.operand, scope);
    if (node.operation == UnaryOperator::kNot) return Value(!truth(operand));
    return negated(operand, node.operation == UnaryOperator::kMinus, meter_);
  }

  Value value_of(const Binary& node, const Scope& scope) {
    Value left = evaluate(*node.left, scope);
    if (node.operation == BinaryOperator::kAnd) return truth(left) ? evaluate(*node.right, scope) : left;
    if (node.operation == BinaryOperator::kOr) return truth(left) ? left : evaluate(*node.right, scope);
    const Value right = evaluate(*node.right, scope);
    if (node.operation >= BinaryOperator::kEqual) return Value(compare(node.operation, left, right, meter_));
    return arithmetic(node.operation, left, right, meter_);
  }

  Value value_of(const Concatenation& node, const Scope& scope) {
    std::string text;
    for (const ExpressionPtr& part : node.parts) {
      const std::string piece = to_text(evaluate(*part, scope), meter_);
      meter_.make(piece.size());
      text += piece;
    }
    return make_text(std::move(text), meter_);
  }

  Value value_of(const Conditional& node, const Scope& scope) {
    if (truth(evaluate(*node.condition, scope))) return evaluate(*node.then, scope);
    if (node.otherwise != nullptr) return evaluate(*node.otherwise, scope);
    return Value::undefined("the inline if-expression evaluated to false and no else section was defined.");
  }

  CallArguments arguments_of(const Arguments& arguments, const Scope& scope) {
    CallArguments values;
    for (const ExpressionPtr& argument : arguments.positional) values.positional.push_back(evaluate(*argument, scope));
    for (const auto& [name, argument] : arguments.named) values.named.emplace_back(name, evaluate(*argument, scope));
    if (arguments.more_positional != nullptr) {
      for (Value& value : to_vector(evaluate(*arguments.more_positional, scope), meter_)) {
        values.positional.push_back(std::move(value));
      }
    }
    if (arguments.more_named != nullptr) add_named(evaluate(*arguments.more_named, scope), values);
    return values;
  }
  void add_named(const Value& more, CallArguments& values) {
    if (more.dict() == nullptr) refuse(more, "expected a mapping behind **", meter_);
    const size_t known = values.named.size();
    for (const auto& [key, value] : more.dict()->entries()) {
      if (key.text() == nullptr) refuse(key, "expected strings as the keys of a mapping behind **", meter_);
      const std::string& name = *key.text();
      meter_.make(sizeof(values.named[0]) + name.size());
      meter_.step(1 + static_cast<int64_t>(known));
      const bool is_there = std::any_of(values.named.begin(), values.named.begin() + static_cast<std::ptrdiff_t>(known),
                                        [&name](const auto& argument) { return argument.first == name; });
      if (is_there) meter_.fail("got several values for '" + name + "'");
      values.named.emplace_back(name, value);
    }
  }

  Value value_of(const Call& node, const Scope& scope) { return called(node, scope, nullptr); }

  // caller: of a call block; null for other calls.
  Value called(const Call& node, const Scope& scope, const Caller* caller) {
    const Value callee = evaluate(*node.callee, scope);
    CallArguments arguments = arguments_of(node.arguments, scope);
    if (caller != nullptr) arguments.named.emplace_back(kCaller, Value(caller));
    if (const auto* method = callee.get_if<std::shared_ptr<const Method>>()) {
      return call_method((*method)->receiver, (*method)->name, std::move(arguments), meter_);
    }
    if (const auto* macro = callee.get_if<const MacroStatement*>()) {
      return call_macro(**macro, root_, std::move(arguments));
    }
    if (const auto* block = callee.get_if<const Caller*>()) {
      if ((*block)->around == nullptr) meter_.fail("a caller that is called behind its block is not supported");
      return call_macro(*(*block)->body, *(*block)->around, std::move(arguments));
    }
    if (const auto* function = callee.get_if<Function>()) return functions_.call(*function, std::move(arguments));
    refuse(callee, "expected something to call", meter_);
  }

  // around: whose variables the macro sees beside its own.
  Value call_macro(const MacroStatement& macro, const Scope& around, CallArguments arguments) {
    const Meter::Level level(meter_);
    const int line = meter_.line();
    std::vector<std::string_view> names;
    for (const auto& [name, fallback] : macro.parameters) names.push_back(name);
    if (macro.uses_caller) names.emplace_back(kCaller);
    if (macro.uses_caller && arguments.positional.size() == names.size()) {
      meter_.fail("macro '" + macro.name + "' takes not more than " + std::to_string(macro.parameters.size()) +
                  " arguments");
    }
    const Bound bound("macro '" + macro.name + "'", std::move(arguments), names, meter_);
    Scope scope(&around);
    if (macro.uses_caller) {
      scope.add(kCaller, bound.value(names.size() - 1, Value::undefined("No caller defined")), meter_);
    }
    for (size_t i = 0; i < macro.parameters.size(); ++i) {
      const auto& [name, fallback] = macro.parameters[i];
      Value value = bound.has(i) ? bound.value(i)
                    : fallback   ? evaluate(*fallback, scope)
                                 : Value::undefined("parameter '" + name + "' was not provided");
      scope.set(name, std::move(value), meter_);
    }
    std::string text;
    capture(macro.body, scope, text);
    meter_.stand_at(line);
    return make_text(std::move(text), meter_);
  }

  Meter& meter_;
  Functions functions_;
  Scope root_{nullptr};
  std::vector<std::unique_ptr<Caller>> callers_;    // outlive all values
  std::unordered_map<const Dict*, size_t> traced_;  // place in the traced list
  Rendered result_;
  std::string* output_;
};

}  // namespace

Rendered evaluate(const Syntax& syntax, const Variables& variables, Meter& meter) {
  return Evaluator(variables, meter).run(syntax);
}

}  // namespace fathom::jinja
