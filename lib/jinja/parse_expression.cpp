// A parser by recursive descent with the same rules as jinja2/parser.py, so that the same templates are taken.
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <optional>

#include "jinja/built_ins.h"
#include "jinja/parser.h"

namespace fathom::jinja {
namespace {

using Type = Token::Type;
constexpr int kMostParts = 3000;  // of one expression: a chain like a + b + c nests one level for each operator

using Operators = std::initializer_list<std::pair<std::string_view, BinaryOperator>>;

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  ExpressionPtr expression(bool with_conditional) { return with_conditional ? conditional() : disjunction(); }

  // explicit_parentheses: "()" is an empty tuple.
  ExpressionPtr tuple(bool with_conditional, std::string_view end_name, bool explicit_parentheses) {
    const int line = stream_.line();
    std::vector<ExpressionPtr> items;
    bool is_tuple = false;
    while (true) {
      if (!items.empty()) stream_.expect(",");
      if (ends_tuple(end_name)) break;
      items.push_back(expression(with_conditional));
      if (!stream_.stands_at(",")) break;
      is_tuple = true;
    }
    if (!is_tuple && !items.empty()) return std::move(items.front());
    if (!is_tuple && !explicit_parentheses) {
      stream_.fail("Expected an expression, got '" + describe(stream_.current()) + "'");
    }
    return make(SequenceLiteral{Sequence::Flavor::kTuple, std::move(items)}, line);
  }

  Filter filter() {
    Filter filter{dotted_name(), {}};
    if (!has_filter(filter.name) && !stream_.place.is_conditional) stream_.fail(missing_filter(filter.name));
    if (stream_.stands_at("(")) filter.arguments = call_arguments();
    return filter;
  }

 private:
  template <typename Node>
  ExpressionPtr make(Node node, int line) {
    if (++parts_ > kMostParts) {
      fail_at(stream_.origin(), line, "an expression of more than " + std::to_string(kMostParts) + " parts");
    }
    auto expression = std::make_unique<Expression>();
    expression->line = line;
    expression->node = std::move(node);
    return expression;
  }

  ExpressionPtr conditional() {
    const TokenStream::Level level(stream_);
    const int line = stream_.line();
    ExpressionPtr value = disjunction();
    if (!stream_.skip("if")) return value;
    ExpressionPtr condition = disjunction();
    ExpressionPtr otherwise = stream_.skip("else") ? conditional() : nullptr;
    return make(Conditional{std::move(condition), std::move(value), std::move(otherwise)}, line);
  }

  // Operands with operators of one precedence between them, from left to right.
  template <typename Operand>
  ExpressionPtr chain(Operators operators, const Operand& operand) {
    int line = stream_.line();
    ExpressionPtr left = operand();
    while (const auto operation = take_operator(operators)) {
      left = make(Binary{*operation, std::move(left), operand()}, line);
      line = stream_.line();
    }
    return left;
  }
  std::optional<BinaryOperator> take_operator(Operators operators) {
    for (const auto& [sign, operation] : operators) {
      if (stream_.skip(sign)) return operation;
    }
    return std::nullopt;
  }
  ExpressionPtr disjunction() {
    return chain({{"or", BinaryOperator::kOr}}, [&] { return conjunction(); });
  }
  ExpressionPtr conjunction() {
    return chain({{"and", BinaryOperator::kAnd}}, [&] { return negation(); });
  }
  ExpressionPtr negation() {
    if (!stream_.stands_at("not")) return comparison();
    const TokenStream::Level level(stream_);
    const int line = stream_.take().line;
    return make(Unary{UnaryOperator::kNot, negation()}, line);
  }

  std::optional<BinaryOperator> take_comparison() {
    const Operators signs = {{"==", BinaryOperator::kEqual},     {"!=", BinaryOperator::kNotEqual},
                             {"<=", BinaryOperator::kLessEqual}, {">=", BinaryOperator::kGreaterEqual},
                             {"<", BinaryOperator::kLess},       {">", BinaryOperator::kGreater},
                             {"in", BinaryOperator::kIn}};
    if (const auto comparison = take_operator(signs)) return comparison;
    if (!stream_.stands_at("not") || !stream_.is_followed_by("in")) return std::nullopt;
    stream_.take();
    stream_.take();
    return BinaryOperator::kNotIn;
  }
  ExpressionPtr comparison() {
    const int line = stream_.line();
    ExpressionPtr left = sum();
    const auto comparison = take_comparison();
    if (!comparison) return left;
    ExpressionPtr node = make(Binary{*comparison, std::move(left), sum()}, line);
    if (take_comparison()) stream_.fail("comparisons in a chain are not supported");
    return node;
  }

  ExpressionPtr sum() {
    return chain({{"+", BinaryOperator::kAdd}, {"-", BinaryOperator::kSubtract}}, [&] { return concatenation(); });
  }
  ExpressionPtr concatenation() {
    const int line = stream_.line();
    std::vector<ExpressionPtr> parts;
    parts.push_back(product());
    while (stream_.skip("~")) parts.push_back(product());
    return parts.size() == 1 ? std::move(parts.front()) : make(Concatenation{std::move(parts)}, line);
  }
  ExpressionPtr product() {
    ExpressionPtr node = chain({{"*", BinaryOperator::kMultiply},
                                {"/", BinaryOperator::kDivide},
                                {"//", BinaryOperator::kFloorDivide},
                                {"%", BinaryOperator::kModulo}},
                               [&] { return unary(true); });
    if (stream_.stands_at("**")) stream_.fail("the operator ** is not supported in chat templates");
    return node;
  }

  ExpressionPtr unary(bool with_filters) {
    const int line = stream_.line();
    ExpressionPtr node;
    if (stream_.stands_at("-") || stream_.stands_at("+")) {
      const TokenStream::Level level(stream_);
      const auto operation = stream_.take().text == "-" ? UnaryOperator::kMinus : UnaryOperator::kPlus;
      node = make(Unary{operation, unary(false)}, line);
    } else {
      node = primary();
    }
    node = postfix(std::move(node));
    return with_filters ? filters_and_tests(std::move(node)) : std::move(node);
  }

  ExpressionPtr primary() {
    const Token token = stream_.take();
    if (token.type == Type::kName) return name_or_constant(token);
    if (token.type == Type::kString) {
      std::string text = token.text;
      while (stream_.is(Type::kString)) text += stream_.take().text;
      return make(Literal{make_text(std::move(text), meter_)}, token.line);
    }
    if (token.type == Type::kInteger || token.type == Type::kFloat) return number(token);
    if (token.type == Type::kOperator && token.text == "(") {
      ExpressionPtr inner = tuple(true, "", true);
      stream_.expect(")");
      return inner;
    }
    if (token.type == Type::kOperator && token.text == "[") return list(token.line);
    if (token.type == Type::kOperator && token.text == "{") return dict(token.line);
    fail_at(stream_.origin(), token.line, "unexpected '" + describe(token) + "'");
  }
  ExpressionPtr name_or_constant(const Token& token) {
    if (token.text == "true" || token.text == "True") return make(Literal{Value(true)}, token.line);
    if (token.text == "false" || token.text == "False") return make(Literal{Value(false)}, token.line);
    if (token.text == "none" || token.text == "None") return make(Literal{Value()}, token.line);
    if (token.text == kCaller) stream_.uses_caller = true;
    return make(Name{token.text}, token.line);
  }
  ExpressionPtr number(const Token& token) {
    const std::string& text = token.text;
    if (token.type == Type::kFloat) {
      return make(Literal{Value(std::strtod(text.c_str(), nullptr))}, token.line);
    }
    int64_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
      fail_at(stream_.origin(), token.line, "integers beyond 64 bits are not supported");
    }
    return make(Literal{Value(value)}, token.line);
  }
  ExpressionPtr list(int line) {
    std::vector<ExpressionPtr> items;
    stream_.expect_items("]", [&] { items.push_back(expression(true)); });
    return make(SequenceLiteral{Sequence::Flavor::kList, std::move(items)}, line);
  }
  ExpressionPtr dict(int line) {
    DictLiteral literal;
    stream_.expect_items("}", [&] {
      ExpressionPtr key = expression(true);
      stream_.expect(":");
      literal.entries.emplace_back(std::move(key), expression(true));
    });
    return make(std::move(literal), line);
  }

  ExpressionPtr postfix(ExpressionPtr node) {
    while (true) {
      if (stream_.stands_at(".")) {
        node = attribute(std::move(node));
      } else if (stream_.stands_at("[")) {
        node = subscript(std::move(node));
      } else if (stream_.stands_at("(")) {
        node = call(std::move(node));
      } else {
        return node;
      }
    }
  }
  ExpressionPtr call(ExpressionPtr callee) {
    const int line = stream_.line();
    Arguments arguments = call_arguments();
    return make(Call{std::move(callee), std::move(arguments)}, line);
  }
  ExpressionPtr attribute(ExpressionPtr object) {
    const int line = stream_.take().line;
    const Token token = stream_.take();
    if (token.type == Type::kName) return make(Attribute{std::move(object), token.text}, line);
    if (token.type != Type::kInteger) fail_at(stream_.origin(), token.line, "expected name or number");
    return make(Item{std::move(object), number(token)}, line);
  }
  // object[index] or object[start:stop:step]
  ExpressionPtr subscript(ExpressionPtr object) {
    const int line = stream_.take().line;
    ExpressionPtr bounds[3];
    bool is_slice = false;
    for (ExpressionPtr& bound : bounds) {
      if (!stream_.stands_at(":") && !stream_.stands_at("]")) bound = expression(true);
      if (!stream_.stands_at(":") || &bound == std::end(bounds) - 1) break;
      stream_.take();
      is_slice = true;
    }
    if (stream_.stands_at(",")) stream_.fail("several subscripts are not supported");
    stream_.expect("]");
    auto& [start, stop, step] = bounds;
    if (is_slice) return make(Slice{std::move(object), std::move(start), std::move(stop), std::move(step)}, line);
    if (start == nullptr) fail_at(stream_.origin(), line, "expected a subscript");
    return make(Item{std::move(object), std::move(start)}, line);
  }

  ExpressionPtr filters_and_tests(ExpressionPtr node) {
    while (true) {
      if (stream_.stands_at("|")) {
        const int line = stream_.take().line;
        node = make(FilterCall{std::move(node), filter()}, line);
      } else if (stream_.stands_at("is")) {
        node = test(std::move(node));
      } else if (stream_.stands_at("(")) {
        node = call(std::move(node));
      } else {
        return node;
      }
    }
  }
  ExpressionPtr test(ExpressionPtr operand) {
    const int line = stream_.take().line;
    const bool negated = stream_.skip("not");
    const std::string name = dotted_name();
    if (!has_test(name) && !stream_.place.is_conditional) stream_.fail(missing_test(name));
    Arguments arguments;
    if (stream_.stands_at("(")) {
      arguments = call_arguments();
    } else if (begins_test_argument()) {
      if (stream_.stands_at("is")) stream_.fail("You cannot chain multiple tests with is");
      arguments.positional.push_back(postfix(primary()));
    }
    ExpressionPtr node = make(TestCall{std::move(operand), name, std::move(arguments)}, line);
    return negated ? make(Unary{UnaryOperator::kNot, std::move(node)}, line) : std::move(node);
  }
  bool begins_test_argument() const {
    const Token& token = stream_.current();
    if (token.type == Type::kName) return token.text != "else" && token.text != "or" && token.text != "and";
    if (token.type == Type::kOperator) return token.text == "[" || token.text == "{";
    return token.type == Type::kString || token.type == Type::kInteger || token.type == Type::kFloat;
  }
  std::string dotted_name() {
    std::string name = stream_.expect_name();
    while (stream_.skip(".")) name += "." + stream_.expect_name();
    return name;
  }

  Arguments call_arguments() {
    Arguments arguments;
    const int line = stream_.line();
    stream_.expect("(");
    const auto expect = [&](bool is_in_order) {
      if (!is_in_order) fail_at(stream_.origin(), line, "invalid syntax for function call expression");
    };
    stream_.expect_items(")", [&] {
      expect(arguments.more_named == nullptr);  // which are the last
      if (stream_.skip("*")) {
        expect(arguments.more_positional == nullptr);
        arguments.more_positional = expression(true);
      } else if (stream_.skip("**")) {
        arguments.more_named = expression(true);
      } else if (stream_.is(Type::kName) && stream_.is_followed_by("=")) {
        std::string name = stream_.take().text;
        stream_.take();
        arguments.named.emplace_back(std::move(name), expression(true));
      } else {
        expect(arguments.named.empty() && arguments.more_positional == nullptr);
        arguments.positional.push_back(expression(true));
      }
    });
    return arguments;
  }

  bool ends_tuple(std::string_view end_name) const {
    return stream_.stands_at("}}") || stream_.stands_at("%}") || stream_.stands_at(")") ||
           (!end_name.empty() && stream_.stands_at(end_name));
  }

  TokenStream& stream_;
  Meter meter_{""};
  int parts_ = 0;
};

}  // namespace

ExpressionPtr parse_expression(TokenStream& stream, bool with_conditional) {
  return ExpressionParser(stream).expression(with_conditional);
}

ExpressionPtr parse_tuple(TokenStream& stream, bool with_conditional, std::string_view end_name) {
  return ExpressionParser(stream).tuple(with_conditional, end_name, false);
}

Filter parse_filter(TokenStream& stream) { return ExpressionParser(stream).filter(); }

}  // namespace fathom::jinja
