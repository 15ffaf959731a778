// Arithmetic and order: Python's rules for numbers, text and sequences, in 64 bits.
#include <algorithm>
#include <compare>

#include "jinja/built_ins.h"
#include "jinja/operators.h"
#include "jinja/show.h"

namespace fathom::jinja {
namespace {

constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%"};

[[noreturn]] void refuse_both(BinaryOperator operation, const Value& left, const Value& right, Meter& meter) {
  for (const Value* value : {&left, &right}) {
    if (value->is<Undefined>()) refuse(*value, "", meter);
  }
  meter.fail("unsupported operand types for " + std::string(kSymbols[static_cast<int>(operation)]) + ": " +
             type_name(left) + " and " + type_name(right));
}

Value whole(int64_t value) { return Value(value); }
Value real(double value) { return Value(value); }

int64_t checked(bool overflows, int64_t value, Meter& meter) {
  if (overflows) meter.fail("integers beyond 64 bits are not supported");
  return value;
}

// The quotient rounded down; the remainder has the divisor's sign.
int64_t floor_divide(int64_t a, int64_t b, Meter& meter) {
  if (b == -1) {
    int64_t result = 0;
    const bool overflows = __builtin_sub_overflow(int64_t{0}, a, &result);
    return checked(overflows, result, meter);
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Value on_integers(BinaryOperator operation, int64_t a, int64_t b, Meter& meter) {
  int64_t result = 0;
  bool overflows = false;
  const bool divides = operation == BinaryOperator::kDivide || operation == BinaryOperator::kFloorDivide ||
                       operation == BinaryOperator::kModulo;
  if (divides && b == 0) meter.fail("division by zero");
  switch (operation) {
    case BinaryOperator::kAdd:
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryOperator::kSubtract:
      overflows = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryOperator::kMultiply:
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryOperator::kDivide:
      return real(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOperator::kFloorDivide:
      return whole(floor_divide(a, b, meter));
    default:
      return whole(b == -1 ? 0 : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0));
  }
  return whole(checked(overflows, result, meter));
}

Value on_floats(BinaryOperator operation, double a, double b, Meter& meter) {
  switch (operation) {
    case BinaryOperator::kAdd:
      return real(a + b);
    case BinaryOperator::kSubtract:
      return real(a - b);
    case BinaryOperator::kMultiply:
      return real(a * b);
    case BinaryOperator::kDivide:
      if (b == 0) meter.fail("float division by zero");
      return real(a / b);
    default:
      meter.fail(std::string(kSymbols[static_cast<int>(operation)]) + " of numbers with a point is not supported");
  }
}

Value repeated(const Value& operand, int64_t count, Meter& meter) {
  const std::string& text = *operand.text();
  size_t bytes = 0;
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  if (__builtin_mul_overflow(text.size(), times, &bytes)) bytes = size_t{1} << 62;
  meter.make(bytes);
  std::string result;
  result.reserve(bytes);
  while (result.size() < bytes) result += text;
  return make_text_like(operand, std::move(result), meter);
}

bool is_joinable(const Value& value) {
  return value.is_sequence(Sequence::Flavor::kList) || value.is_sequence(Sequence::Flavor::kTuple);
}

// Text or sequences joined; nullopt where + does not join these two.
std::optional<Value> joined(const Value& left, const Value& right, Meter& meter) {
  if (left.text() != nullptr && right.text() != nullptr) {
    meter.make(left.text()->size() + right.text()->size());
    if (left.is<Value::Text>() && right.is<Value::Text>()) return make_text(*left.text() + *right.text(), meter);
    return make_markup(to_escaped_text(left, meter) + to_escaped_text(right, meter), meter);
  }
  const Sequence *a = left.sequence(), *b = right.sequence();
  if (!is_joinable(left) || a == nullptr || b == nullptr || a->flavor != b->flavor) return std::nullopt;
  std::vector<Value> items = a->items;
  items.insert(items.end(), b->items.begin(), b->items.end());
  return make_sequence(std::move(items), a->flavor, meter);
}

std::partial_ordering order_of(const Value& left, const Value& right, Meter& meter) {
  meter.step();
  const auto a = left.integer(), b = right.integer();
  if (a && b) return *a <=> *b;
  const auto x = left.number(), y = right.number();
  if (x && y) return *x <=> *y;
  if (left.text() != nullptr && right.text() != nullptr) {
    meter.read(std::min(left.text()->size(), right.text()->size()));
    return *left.text() <=> *right.text();  // of UTF-8, bytes are ordered as characters are
  }
  for (const Value* value : {&left, &right}) {
    if (value->is<Undefined>()) refuse(*value, "", meter);
  }
  meter.fail("the order of values of types " + type_name(left) + " and " + type_name(right) + " is not supported");
}

}  // namespace

Value arithmetic(BinaryOperator operation, const Value& left, const Value& right, Meter& meter) {
  if (operation == BinaryOperator::kModulo && left.text() != nullptr) return formatted(left, right, meter);
  const auto a = left.integer(), b = right.integer();
  if (a && b) return on_integers(operation, *a, *b, meter);
  const auto x = left.number(), y = right.number();
  if (x && y) return on_floats(operation, *x, *y, meter);
  if (operation == BinaryOperator::kAdd) {
    if (auto result = joined(left, right, meter)) return *result;
  }
  if (operation == BinaryOperator::kMultiply && b && left.text() != nullptr) return repeated(left, *b, meter);
  if (operation == BinaryOperator::kMultiply && a && right.text() != nullptr) return repeated(right, *a, meter);
  refuse_both(operation, left, right, meter);
}

Value negated(const Value& operand, bool minus, Meter& meter) {
  if (const auto value = operand.integer()) {
    return minus ? on_integers(BinaryOperator::kSubtract, 0, *value, meter) : whole(*value);
  }
  if (const auto value = operand.number()) return real(minus ? -*value : *value);
  refuse(operand, std::string("expected a number after ") + (minus ? "-" : "+"), meter);
}

bool less(const Value& left, const Value& right, Meter& meter) { return std::is_lt(order_of(left, right, meter)); }

bool compare(BinaryOperator comparison, const Value& left, const Value& right, Meter& meter) {
  switch (comparison) {
    case BinaryOperator::kEqual:
      return equal(left, right, meter);
    case BinaryOperator::kNotEqual:
      return !equal(left, right, meter);
    case BinaryOperator::kLess:
      return std::is_lt(order_of(left, right, meter));
    case BinaryOperator::kGreater:
      return std::is_gt(order_of(left, right, meter));
    case BinaryOperator::kLessEqual:
      return std::is_lteq(order_of(left, right, meter));
    case BinaryOperator::kGreaterEqual:
      return std::is_gteq(order_of(left, right, meter));
    case BinaryOperator::kIn:
      return contains(right, left, meter);
    default:
      return !contains(right, left, meter);
  }
}

}  // namespace fathom::jinja
