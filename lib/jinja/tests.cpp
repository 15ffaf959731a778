// The tests behind `is`, select and the like.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "jinja/built_ins.h"
#include "jinja/operators.h"

namespace fathom::jinja {
namespace {

struct TestEntry {
  std::string_view name;
  bool takes_argument;
  bool (*apply)(const Value& value, const Value& argument, Meter& meter);
};

bool has_remainder(const Value& value, const Value& divisor, int64_t wanted, Meter& meter) {
  if (!value.number() || !divisor.number()) refuse(value.number() ? divisor : value, "expected a number", meter);
  return equal(arithmetic(BinaryOperator::kModulo, value, divisor, meter), Value(wanted), meter);
}
Value two() { return Value(int64_t{2}); }

template <BinaryOperator comparison>
bool compared(const Value& value, const Value& argument, Meter& meter) {
  return compare(comparison, value, argument, meter);
}

constexpr TestEntry kTests[] = {
    {"defined", false, [](const Value& v, const Value&, Meter&) { return !v.is<Undefined>(); }},
    {"undefined", false, [](const Value& v, const Value&, Meter&) { return v.is<Undefined>(); }},
    {"none", false, [](const Value& v, const Value&, Meter&) { return v.is<None>(); }},
    {"boolean", false, [](const Value& v, const Value&, Meter&) { return v.is<bool>(); }},
    {"true", false, [](const Value& v, const Value&, Meter&) { return v.is<bool>() && truth(v); }},
    {"false", false, [](const Value& v, const Value&, Meter&) { return v.is<bool>() && !truth(v); }},
    {"integer", false, [](const Value& v, const Value&, Meter&) { return v.is<int64_t>(); }},
    {"float", false, [](const Value& v, const Value&, Meter&) { return v.is<double>(); }},
    {"number", false, [](const Value& v, const Value&, Meter&) { return v.number().has_value(); }},
    {"string", false, [](const Value& v, const Value&, Meter&) { return v.text() != nullptr; }},
    {"mapping", false, [](const Value& v, const Value&, Meter&) { return v.dict() != nullptr; }},
    {"sequence", false,
     [](const Value& v, const Value&, Meter&) { return v.is<Undefined>() || v.is_indexed() || v.dict() != nullptr; }},
    {"iterable", false, [](const Value& v, const Value&, Meter&) { return Cursor::can_visit(v); }},
    {"odd", false, [](const Value& v, const Value&, Meter& m) { return has_remainder(v, two(), 1, m); }},
    {"even", false, [](const Value& v, const Value&, Meter& m) { return has_remainder(v, two(), 0, m); }},
    {"divisibleby", true, [](const Value& v, const Value& a, Meter& m) { return has_remainder(v, a, 0, m); }},
    {"in", true, compared<BinaryOperator::kIn>},
    {"==", true, compared<BinaryOperator::kEqual>},
    {"eq", true, compared<BinaryOperator::kEqual>},
    {"equalto", true, compared<BinaryOperator::kEqual>},
    {"!=", true, compared<BinaryOperator::kNotEqual>},
    {"ne", true, compared<BinaryOperator::kNotEqual>},
    {">", true, compared<BinaryOperator::kGreater>},
    {"gt", true, compared<BinaryOperator::kGreater>},
    {"greaterthan", true, compared<BinaryOperator::kGreater>},
    {">=", true, compared<BinaryOperator::kGreaterEqual>},
    {"ge", true, compared<BinaryOperator::kGreaterEqual>},
    {"<", true, compared<BinaryOperator::kLess>},
    {"lt", true, compared<BinaryOperator::kLess>},
    {"lessthan", true, compared<BinaryOperator::kLess>},
    {"<=", true, compared<BinaryOperator::kLessEqual>},
    {"le", true, compared<BinaryOperator::kLessEqual>}};

constexpr std::string_view kRefusedTests[] = {"callable", "escaped", "filter", "lower", "sameas", "test", "upper"};

const TestEntry* find_test(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTests), std::end(kTests), [&](const TestEntry& test) { return test.name == name; });
  return found != std::end(kTests) ? found : nullptr;
}

}  // namespace

bool has_test(const std::string& name) { return find_test(name) != nullptr; }

std::string missing_test(const std::string& name) {
  const bool known = std::find(std::begin(kRefusedTests), std::end(kRefusedTests), name) != std::end(kRefusedTests);
  return known ? "the test '" + name + "' is not supported in chat templates" : "No test named '" + name + "'.";
}

bool apply_test(const std::string& name, const Value& operand, const CallArguments& arguments, Meter& meter) {
  meter.step();
  const TestEntry* test = find_test(name);
  if (test == nullptr) meter.fail(missing_test(name));
  if (!arguments.named.empty()) meter.fail("the test '" + name + "' takes no keyword arguments");
  if (arguments.positional.size() != (test->takes_argument ? 1 : 0)) {
    meter.fail("the test '" + name + "' takes " + (test->takes_argument ? "one argument" : "no argument"));
  }
  return test->apply(operand, test->takes_argument ? arguments.positional.front() : operand, meter);
}

}  // namespace fathom::jinja
