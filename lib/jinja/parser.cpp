// Statements: text, {{ }}, and the tags of the subset. Tags that Jinja has and the subset has not are refused by name.
#include "jinja/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <utility>

namespace fathom::jinja {
namespace {

using Type = Token::Type;

class Parser {
 public:
  Parser(std::string_view source, const std::string& origin) : stream_(tokenize(source, origin), origin) {}

  Syntax run() {
    Syntax syntax;
    syntax.body = body({});
    if (!stream_.is(Type::kEnd)) stream_.fail("unexpected '" + describe(stream_.current()) + "'");
    syntax.has_generation = has_generation_;
    syntax.literals = stream_.literals();
    return syntax;
  }

 private:
  template <typename Node>
  static Statement made(Node node, int line) {
    Statement statement;
    statement.node.emplace<Node>(std::move(node));
    statement.line = line;
    return statement;
  }

  // Statements up to a tag that is one of `ends`, whose name is the current token then; or, without ends, up to the
  // end of the template.
  Body body(std::initializer_list<std::string_view> ends) {
    const TokenStream::Level level(stream_);
    Body statements;
    while (!stream_.is(Type::kEnd)) {
      const int line = stream_.line();
      if (stream_.is(Type::kText)) {
        statements.push_back(made(Text{stream_.take().text}, line));
      } else if (stream_.skip("{{")) {
        statements.push_back(made(Print{parse_tuple(stream_)}, line));
        stream_.expect("}}");
      } else {
        stream_.expect("{%");
        if (std::any_of(ends.begin(), ends.end(), [&](auto end) { return stream_.stands_at(end); })) return statements;
        statements.push_back(statement());
        stream_.expect("%}");
      }
    }
    if (ends.size() > 0) {
      stream_.fail("Unexpected end of template. Jinja was looking for the tag '" + std::string(*(ends.end() - 1)) +
                   "'");
    }
    return statements;
  }
  // The rest of a tag, its body, and the name of the tag that ended it.
  Body enclosed(std::initializer_list<std::string_view> ends, std::string& end) {
    stream_.skip(":");
    stream_.expect("%}");
    Body statements = body(ends);
    end = stream_.take().text;
    return statements;
  }
  // A body with variables of its own. is_function: one that Jinja runs by itself, so that it cannot leave a loop around
  // it.
  Body scope(std::string_view end, bool is_function = false) {
    const TokenStream::Place outer = stream_.place;
    stream_.place = {.in_loop = outer.in_loop && !is_function, .at_top = false};
    std::string found;
    Body statements = enclosed({end}, found);
    stream_.place = outer;
    return statements;
  }

  Statement statement() {
    const int line = stream_.line();
    if (!stream_.is(Type::kName)) stream_.fail("tag name expected");
    const std::string tag = stream_.take().text;
    if (tag == "if") return {if_statement(), line};
    if (tag == "for") return {for_statement(), line};
    if (tag == "set") return set_statement(line);
    if (tag == "macro") return {macro_statement(), line};
    if (tag == "generation") {
      has_generation_ = true;
      return {Generation{scope("endgeneration", true)}, line};
    }
    if (tag == "filter") return {filter_block(), line};
    if (tag == "with") return {with_statement(), line};
    if (tag == "call") return {call_block(), line};
    if (tag == "break" || tag == "continue") {
      if (!stream_.place.in_loop) fail_at(stream_.origin(), line, "'" + tag + "' outside of a loop");
      return {tag == "break" ? Jump::kBreak : Jump::kContinue, line};
    }
    constexpr std::array<std::string_view, 8> kRefused = {"block", "extends", "include", "import",
                                                          "from",  "print",   "do",      "autoescape"};
    if (std::find(kRefused.begin(), kRefused.end(), tag) != kRefused.end()) {
      fail_at(stream_.origin(), line, "the tag '" + tag + "' is not supported in chat templates");
    }
    fail_at(stream_.origin(), line, "Encountered unknown tag '" + tag + "'");
  }

  If if_statement() {
    const TokenStream::Place outer = stream_.place;
    stream_.place.is_conditional = true;
    If result;
    std::string end = "elif";
    while (end == "elif") {
      ExpressionPtr condition = parse_tuple(stream_, false);
      Body then = enclosed({"elif", "else", "endif"}, end);
      result.branches.emplace_back(std::move(condition), std::move(then));
    }
    if (end == "else") result.otherwise = enclosed({"endif"}, end);
    stream_.place = outer;
    return result;
  }

  For for_statement() {
    For loop;
    loop.target = target("in", false);
    if (!stream_.skip("in")) stream_.fail("expected token 'in', got '" + describe(stream_.current()) + "'");
    loop.iterable = parse_tuple(stream_, false, "recursive");
    if (stream_.skip("if")) loop.condition = parse_expression(stream_);
    if (stream_.stands_at("recursive")) stream_.fail("recursive loops are not supported");
    const TokenStream::Place outer = stream_.place;
    stream_.place = {.in_loop = true, .at_top = false};
    std::string end;
    loop.body = enclosed({"else", "endfor"}, end);
    stream_.place.in_loop = outer.in_loop;
    if (end == "else") loop.otherwise = enclosed({"endfor"}, end);
    stream_.place = outer;
    return loop;
  }

  Statement set_statement(int line) {
    Target written = target("", true);
    if (stream_.skip("=")) return {Set{std::move(written), parse_tuple(stream_)}, line};
    if (written.unpacks) fail_at(stream_.origin(), line, "a set block needs one name");
    CapturingBlock block{false, std::move(written), {}, {}};
    while (stream_.skip("|")) block.filters.push_back(parse_filter(stream_));
    block.body = scope("endset");
    return {std::move(block), line};
  }

  CapturingBlock filter_block() {
    CapturingBlock block{true, {}, {}, {}};
    do block.filters.push_back(parse_filter(stream_));
    while (stream_.skip("|"));
    block.body = scope("endfilter");
    return block;
  }

  With with_statement() {
    With with;
    while (!stream_.stands_at("%}")) {
      if (!with.values.empty()) stream_.expect(",");
      Target written = target("", false);
      stream_.expect("=");
      with.values.emplace_back(std::move(written), parse_expression(stream_));
    }
    with.body = scope("endwith");
    return with;
  }

  std::unique_ptr<const MacroStatement> macro_statement() {
    // What a macro sees beside its parameters are the template's variables: a loop's may be gone when it is called.
    if (!stream_.place.at_top) stream_.fail("a macro inside a loop, macro or block is not supported");
    auto macro = std::make_unique<MacroStatement>();
    macro->name = stream_.expect_name();
    signature(*macro);
    macro_body(*macro, "endmacro");
    return macro;
  }

  CallBlock call_block() {
    auto caller = std::make_unique<MacroStatement>();
    caller->name = kCaller;
    if (stream_.stands_at("(")) signature(*caller);
    CallBlock block;
    block.call = parse_expression(stream_);
    if (!std::holds_alternative<Call>(block.call->node)) stream_.fail("expected call");
    macro_body(*caller, "endcall");
    block.caller = std::move(caller);
    return block;
  }

  // "(a, b=1)"
  void signature(MacroStatement& macro) {
    stream_.expect("(");
    while (!stream_.stands_at(")")) {
      if (!macro.parameters.empty()) stream_.expect(",");
      std::string name = assignable_name();
      ExpressionPtr fallback = stream_.skip("=") ? parse_expression(stream_) : nullptr;
      if (fallback == nullptr && !macro.parameters.empty() && macro.parameters.back().second != nullptr) {
        stream_.fail("non-default argument follows default argument");
      }
      macro.parameters.emplace_back(std::move(name), std::move(fallback));
    }
    stream_.expect(")");
  }

  // As in Jinja, blocks inside that read the name count.
  void macro_body(MacroStatement& macro, std::string_view end) {
    const bool outer = std::exchange(stream_.uses_caller, false);
    macro.body = scope(end, true);
    macro.uses_caller = stream_.uses_caller;
    stream_.uses_caller = stream_.uses_caller || outer;
  }

  std::string assignable_name() {
    constexpr std::array<std::string_view, 6> kConstants = {"true", "True", "false", "False", "none", "None"};
    std::string name = stream_.expect_name();
    if (std::find(kConstants.begin(), kConstants.end(), name) != kConstants.end()) {
      stream_.fail("can't assign to '" + name + "'");
    }
    if (name == kCaller) stream_.fail("an own variable 'caller' is not supported in chat templates");
    return name;
  }
  // "a", "a, b", "(a, b)", and "space.attribute" where a namespace may be written.
  Target target(std::string_view end_name, bool with_namespace) {
    Target first = single_target(with_namespace);
    if (!stream_.stands_at(",")) return first;
    Target all;
    all.unpacks = true;
    all.parts.push_back(std::move(first));
    while (stream_.skip(",")) {
      if (stream_.stands_at("%}") || stream_.stands_at("=") || stream_.stands_at(")")) break;
      if (!end_name.empty() && stream_.stands_at(end_name)) break;
      all.parts.push_back(single_target(with_namespace));
    }
    return all;
  }
  Target single_target(bool with_namespace) {
    const TokenStream::Level level(stream_);
    if (stream_.skip("(")) {
      Target inner = target("", with_namespace);
      stream_.expect(")");
      return inner;
    }
    Target result;
    result.name = assignable_name();
    if (with_namespace && stream_.skip(".")) {
      result.attribute = stream_.expect_name();
    } else if (result.name == "loop" && !with_namespace) {
      stream_.fail("Can't assign to special loop variable in for-loop target");
    }
    return result;
  }

  TokenStream stream_;
  bool has_generation_ = false;
};

}  // namespace

Syntax parse(std::string_view source, const std::string& origin) { return Parser(source, origin).run(); }

}  // namespace fathom::jinja
