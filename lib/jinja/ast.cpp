// How deep a tree is, so that walking and freeing it can be bounded.
#include "jinja/ast.h"

#include <algorithm>

namespace fathom::jinja {
namespace {

int depth_of(const ExpressionPtr& expression) { return expression ? expression->depth : 0; }

int depth_of(const std::vector<ExpressionPtr>& expressions) {
  int depth = 0;
  for (const ExpressionPtr& expression : expressions) depth = std::max(depth, depth_of(expression));
  return depth;
}

int depth_of(const Arguments& arguments) {
  int depth = depth_of(arguments.positional);
  for (const auto& [name, argument] : arguments.named) depth = std::max(depth, depth_of(argument));
  return depth;
}

struct DeepestChild {
  int operator()(const Literal&) const { return 0; }
  int operator()(const Name&) const { return 0; }
  int operator()(const Captured&) const { return 0; }
  int operator()(const SequenceLiteral& node) const { return depth_of(node.items); }
  int operator()(const DictLiteral& node) const {
    int depth = 0;
    for (const auto& [key, value] : node.entries) depth = std::max({depth, depth_of(key), depth_of(value)});
    return depth;
  }
  int operator()(const Attribute& node) const { return depth_of(node.object); }
  int operator()(const Item& node) const { return std::max(depth_of(node.object), depth_of(node.index)); }
  int operator()(const Slice& node) const {
    return std::max({depth_of(node.object), depth_of(node.start), depth_of(node.stop), depth_of(node.step)});
  }
  int operator()(const Call& node) const { return std::max(depth_of(node.callee), depth_of(node.arguments)); }
  int operator()(const FilterCall& node) const { return std::max(depth_of(node.operand), depth_of(node.arguments)); }
  int operator()(const TestCall& node) const { return std::max(depth_of(node.operand), depth_of(node.arguments)); }
  int operator()(const Unary& node) const { return depth_of(node.operand); }
  int operator()(const Binary& node) const { return std::max(depth_of(node.left), depth_of(node.right)); }
  int operator()(const Concatenation& node) const { return depth_of(node.parts); }
  int operator()(const Compare& node) const {
    int depth = depth_of(node.first);
    for (const auto& [comparison, operand] : node.rest) depth = std::max(depth, depth_of(operand));
    return depth;
  }
  int operator()(const Conditional& node) const {
    return std::max({depth_of(node.condition), depth_of(node.then), depth_of(node.otherwise)});
  }
};

}  // namespace

int deepest_child(const Expression& expression) { return std::visit(DeepestChild{}, expression.node); }

}  // namespace fathom::jinja
