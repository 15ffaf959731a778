// Statements of a template, one after another.
#include "jinja/evaluate.h"
#include "jinja/loop.h"
#include "jinja/show.h"

namespace fathom::jinja {

Rendered Evaluator::run() {
  output_ = &result_.text;
  execute(syntax_.body, root_);
  return std::move(result_);
}

void Evaluator::write(std::string_view text) {
  meter_.make(text.size());
  *output_ += text;
}

Evaluator::Flow Evaluator::execute(const Body& body, Scope& scope) {
  for (const Statement& statement : body) {
    const Flow flow = execute(statement, scope);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::execute(const Statement& statement, Scope& scope) {
  const Meter::Level level(meter_);
  meter_.step();
  meter_.stand_at(statement.line);
  return std::visit([&](const auto& node) { return run_statement(node, scope); }, statement.node);
}

Evaluator::Flow Evaluator::run_statement(const Text& node, Scope&) {
  write(node.text);
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run_statement(const Print& node, Scope& scope) {
  write(to_text(evaluate(*node.value, scope), meter_));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run_statement(const If& node, Scope& scope) {
  for (const auto& [condition, body] : node.branches) {
    if (truth(evaluate(*condition, scope))) return execute(body, scope);
  }
  return execute(node.otherwise, scope);
}

Value Evaluator::chosen_items(const For& node, const Scope& scope) {
  const Value items = evaluate(*node.iterable, scope);
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

void Evaluator::trace(const Value& list) {
  const Sequence* items = list.sequence();
  for (size_t i = 0; items != nullptr && i < items->items.size(); ++i) {
    if (const Dict* item = items->items[i].dict()) traced_.emplace(item, i);
  }
}

// The body for one item; what it writes is noted where the item is traced.
Evaluator::Flow Evaluator::visit(const For& node, const Value& item, Scope& inner) {
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

Evaluator::Flow Evaluator::run_statement(const For& node, Scope& scope) {
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

void Evaluator::assign(const Target& target, const Value& value, Scope& scope) {
  if (target.unpacks) {
    const std::vector<Value> items = to_vector(value, meter_);
    if (items.size() != target.parts.size()) {
      meter_.fail("expected " + std::to_string(target.parts.size()) + " values to unpack, got " +
                  std::to_string(items.size()));
    }
    for (size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i], scope);
    return;
  }
  if (target.attribute.empty()) {
    scope.set(target.name, value, meter_);
    return;
  }
  const Value* space = scope.find(target.name, meter_);
  if (space == nullptr || !space->is<Namespace*>()) meter_.fail("cannot assign attribute on non-namespace object");
  if (target.attribute.starts_with("_"))
    meter_.fail("a namespace cannot hold the attribute '" + target.attribute + "'");
  (*space->get_if<Namespace*>())->attributes.set(make_text(target.attribute, meter_), value, meter_);
}

Evaluator::Flow Evaluator::run_statement(const Set& node, Scope& scope) {
  assign(node.target, evaluate(*node.value, scope), scope);
  return Flow::kNext;
}

Evaluator::Flow Evaluator::capture(const Body& body, Scope& scope, std::string& text) {
  std::string* outer = std::exchange(output_, &text);
  const Flow flow = execute(body, scope);
  output_ = outer;
  return flow;
}

Value Evaluator::filtered(const ExpressionPtr& filters, std::string text, Scope& scope) {
  if (filters == nullptr) return make_text(std::move(text), meter_);
  std::string outer = std::exchange(captured_, std::move(text));
  Value value = evaluate(*filters, scope);
  captured_ = std::move(outer);
  return value;
}

Evaluator::Flow Evaluator::run_statement(const SetBlock& node, Scope& scope) {
  Scope inner(&scope);
  std::string text;
  const Flow flow = capture(node.body, inner, text);
  if (flow == Flow::kNext) assign(node.target, filtered(node.filters, std::move(text), inner), scope);
  return flow;
}

Evaluator::Flow Evaluator::run_statement(const FilterBlock& node, Scope& scope) {
  Scope inner(&scope);
  std::string text;
  const Flow flow = capture(node.body, inner, text);
  if (flow == Flow::kNext) write(to_text(filtered(node.filters, std::move(text), inner), meter_));
  return flow;
}

Evaluator::Flow Evaluator::run_statement(const With& node, Scope& scope) {
  Scope inner(&scope);
  // As in Jinja, the values do not see each other.
  std::vector<Value> values;
  for (const auto& [target, expression] : node.values) values.push_back(evaluate(*expression, scope));
  for (size_t i = 0; i < values.size(); ++i) assign(node.values[i].first, values[i], inner);
  return execute(node.body, inner);
}

Evaluator::Flow Evaluator::run_statement(const Generation& node, Scope& scope) {
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

Evaluator::Flow Evaluator::run_statement(const std::unique_ptr<const MacroStatement>& node, Scope& scope) {
  scope.set(node->name, Value(Value::Data(node.get())), meter_);
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run_statement(const Jump& node, Scope&) {
  return node == Jump::kBreak ? Flow::kBreak : Flow::kContinue;
}

}  // namespace fathom::jinja
