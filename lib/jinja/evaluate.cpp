// Expressions of a template to values.
#include "jinja/evaluate.h"

#include "jinja/methods.h"
#include "jinja/operators.h"
#include "jinja/show.h"

namespace fathom::jinja {
namespace {

std::optional<Function> function_named(std::string_view name) {
  constexpr std::pair<std::string_view, Function> kFunctions[] = {{"range", Function::kRange},
                                                                  {"namespace", Function::kNamespace},
                                                                  {"dict", Function::kDict},
                                                                  {"raise_exception", Function::kRaiseException},
                                                                  {"strftime_now", Function::kStrftimeNow}};
  for (const auto& [known, function] : kFunctions) {
    if (known == name) return function;
  }
  return std::nullopt;
}

}  // namespace

Value Evaluator::evaluate(const Expression& expression, const Scope& scope) {
  const Meter::Level level(meter_);
  meter_.step();
  const int line = meter_.line();
  meter_.stand_at(expression.line);
  Value value = std::visit([&](const auto& node) { return value_of(node, scope); }, expression.node);
  meter_.stand_at(line);
  return value;
}

Value Evaluator::value_of(const Literal& node, const Scope&) { return node.value; }

Value Evaluator::value_of(const Name& node, const Scope& scope) {
  if (const Value* found = scope.find(node.name, meter_)) return *found;
  if (const auto function = function_named(node.name)) return Value(Value::Data(*function));
  for (const char* refused : {"cycler", "joiner", "lipsum", "caller", "varargs", "kwargs", "self"}) {
    if (node.name == refused) meter_.fail("'" + node.name + "' is not supported in chat templates");
  }
  return Value::undefined("'" + node.name + "' is undefined");
}

Value Evaluator::value_of(const Captured&, const Scope&) { return make_text(captured_, meter_); }

Value Evaluator::value_of(const SequenceLiteral& node, const Scope& scope) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExpressionPtr& item : node.items) items.push_back(evaluate(*item, scope));
  return make_sequence(std::move(items), node.flavor, meter_);
}

Value Evaluator::value_of(const DictLiteral& node, const Scope& scope) {
  Dict dict;
  for (const auto& [key_expression, value_expression] : node.entries) {
    const Value key = evaluate(*key_expression, scope);
    if (!is_hashable(key)) refuse(key, "expected a value that can be a key", meter_);
    dict.set(key, evaluate(*value_expression, scope), meter_);
  }
  return make_dict(std::move(dict), meter_);
}

Value Evaluator::value_of(const Attribute& node, const Scope& scope) {
  return get_attribute(evaluate(*node.object, scope), node.name, meter_);
}

Value Evaluator::value_of(const Item& node, const Scope& scope) {
  const Value object = evaluate(*node.object, scope);
  return get_item(object, evaluate(*node.index, scope), meter_);
}

Value Evaluator::value_of(const Slice& node, const Scope& scope) {
  const Value object = evaluate(*node.object, scope);
  const auto bound = [&](const ExpressionPtr& expression) {
    return expression ? evaluate(*expression, scope) : Value();
  };
  const Value start = bound(node.start), stop = bound(node.stop), step = bound(node.step);
  return get_slice(object, start, stop, step, meter_);
}

Value Evaluator::value_of(const FilterCall& node, const Scope& scope) {
  const Value operand = evaluate(*node.operand, scope);
  return apply_filter(node.name, operand, arguments_of(node.arguments, scope), meter_);
}

Value Evaluator::value_of(const TestCall& node, const Scope& scope) {
  const Value operand = evaluate(*node.operand, scope);
  return Value(Value::Data(apply_test(node.name, operand, arguments_of(node.arguments, scope), meter_)));
}

Value Evaluator::value_of(const Unary& node, const Scope& scope) {
  const Value operand = evaluate(*node.operand, scope);
  if (node.operation == UnaryOperator::kNot) return Value(Value::Data(!truth(operand)));
  return negated(operand, node.operation == UnaryOperator::kMinus, meter_);
}

Value Evaluator::value_of(const Binary& node, const Scope& scope) {
  Value left = evaluate(*node.left, scope);
  if (node.operation == BinaryOperator::kAnd) return truth(left) ? evaluate(*node.right, scope) : left;
  if (node.operation == BinaryOperator::kOr) return truth(left) ? left : evaluate(*node.right, scope);
  return arithmetic(node.operation, left, evaluate(*node.right, scope), meter_);
}

Value Evaluator::value_of(const Concatenation& node, const Scope& scope) {
  std::string text;
  for (const ExpressionPtr& part : node.parts) {
    const std::string piece = to_text(evaluate(*part, scope), meter_);
    meter_.make(piece.size());
    text += piece;
  }
  return make_text(std::move(text), meter_);
}

Value Evaluator::value_of(const Compare& node, const Scope& scope) {
  Value left = evaluate(*node.first, scope);
  for (const auto& [comparison, expression] : node.rest) {
    Value right = evaluate(*expression, scope);
    if (!compare(comparison, left, right, meter_)) return Value(Value::Data(false));
    left = std::move(right);
  }
  return Value(Value::Data(true));
}

Value Evaluator::value_of(const Conditional& node, const Scope& scope) {
  if (truth(evaluate(*node.condition, scope))) return evaluate(*node.then, scope);
  if (node.otherwise != nullptr) return evaluate(*node.otherwise, scope);
  return Value::undefined("the inline if-expression evaluated to false and no else section was defined.");
}

CallArguments Evaluator::arguments_of(const Arguments& arguments, const Scope& scope) {
  CallArguments values;
  for (const ExpressionPtr& argument : arguments.positional) values.positional.push_back(evaluate(*argument, scope));
  for (const auto& [name, argument] : arguments.named) values.named.emplace_back(name, evaluate(*argument, scope));
  return values;
}

Value Evaluator::value_of(const Call& node, const Scope& scope) {
  const auto* attribute = std::get_if<Attribute>(&node.callee->node);
  if (attribute == nullptr) {
    const Value callee = evaluate(*node.callee, scope);
    return call(callee, arguments_of(node.arguments, scope));
  }
  const Value object = evaluate(*attribute->object, scope);
  if (method_kind(object, attribute->name) == MethodKind::kAllowed) {
    return call_method(object, attribute->name, arguments_of(node.arguments, scope), meter_);
  }
  const Value callee = get_attribute(object, attribute->name, meter_);
  return call(callee, arguments_of(node.arguments, scope));
}

Value Evaluator::call(const Value& callee, CallArguments arguments) {
  if (const auto* method = callee.get_if<std::shared_ptr<const Method>>()) {
    return call_method((*method)->receiver, (*method)->name, std::move(arguments), meter_);
  }
  if (const auto* macro = callee.get_if<const MacroStatement*>()) return call_macro(**macro, std::move(arguments));
  if (const auto* function = callee.get_if<Function>()) return call_function(*function, std::move(arguments));
  refuse(callee, "expected something to call", meter_);
}

Value Evaluator::call_macro(const MacroStatement& macro, CallArguments arguments) {
  const Meter::Level level(meter_);
  const int line = meter_.line();
  Scope scope(&root_);
  std::vector<std::optional<Value>> given(macro.parameters.size());
  if (arguments.positional.size() > given.size()) {
    meter_.fail("macro '" + macro.name + "' takes not more than " + std::to_string(given.size()) + " argument(s)");
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) given[i] = std::move(arguments.positional[i]);
  for (auto& [name, value] : arguments.named) {
    size_t place = 0;
    while (place < given.size() && macro.parameters[place].first != name) ++place;
    if (place == given.size() || given[place]) {
      meter_.fail("macro '" + macro.name + "' takes no keyword argument '" + name + "'");
    }
    given[place] = std::move(value);
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const auto& [name, fallback] = macro.parameters[i];
    if (!given[i]) {
      given[i] = fallback ? evaluate(*fallback, scope) : Value::undefined("parameter '" + name + "' was not provided");
    }
    scope.set(name, std::move(*given[i]), meter_);
  }
  std::string text;
  capture(macro.body, scope, text);
  meter_.stand_at(line);
  return make_text(std::move(text), meter_);
}

}  // namespace fathom::jinja
