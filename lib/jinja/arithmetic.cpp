// Arithmetic and order: Python's rules for numbers, text and sequences, in 64 bits.
#include <algorithm>
#include <cmath>

#include "jinja/format.h"
#include "jinja/operators.h"
#include "jinja/text.h"

namespace fathom::jinja {
namespace {

constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};

[[noreturn]] void refuse_both(BinaryOperator operation, const Value& left, const Value& right, Meter& meter) {
  for (const Value* value : {&left, &right}) {
    if (value->is<Undefined>()) refuse(*value, "", meter);
  }
  meter.fail("unsupported operand types for " + std::string(kSymbols[static_cast<int>(operation)]) + ": " +
             type_name(left) + " and " + type_name(right));
}

Value whole(int64_t value) { return Value(Value::Data(value)); }
Value real(double value) { return Value(Value::Data(value)); }

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

int64_t power_of(int64_t base, int64_t exponent, Meter& meter) {
  int64_t result = 1;
  while (exponent > 0) {
    meter.step();
    if (exponent % 2 == 1) checked(__builtin_mul_overflow(result, base, &result), result, meter);
    exponent /= 2;
    if (exponent > 0) checked(__builtin_mul_overflow(base, base, &base), base, meter);
  }
  return result;
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
    case BinaryOperator::kModulo:
      return whole(b == -1 ? 0 : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0));
    default:
      if (b < 0 && a == 0) meter.fail("0 cannot be raised to a negative power");
      if (b < 0) return real(std::pow(static_cast<double>(a), static_cast<double>(b)));
      return whole(power_of(a, b, meter));
  }
  return whole(checked(overflows, result, meter));
}

Value on_floats(BinaryOperator operation, double a, double b, Meter& meter) {
  const auto nonzero = [&] {
    if (b == 0) meter.fail("float division by zero");
  };
  switch (operation) {
    case BinaryOperator::kAdd:
      return real(a + b);
    case BinaryOperator::kSubtract:
      return real(a - b);
    case BinaryOperator::kMultiply:
      return real(a * b);
    case BinaryOperator::kDivide:
      nonzero();
      return real(a / b);
    case BinaryOperator::kFloorDivide:
    case BinaryOperator::kModulo: {
      nonzero();
      double rest = std::fmod(a, b);
      if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
      if (rest == 0) rest = std::copysign(0.0, b);
      if (operation == BinaryOperator::kModulo) return real(rest);
      const double quotient = (a - rest) / b;
      const double floor = std::floor(quotient);
      if (quotient == 0) return real(std::copysign(0.0, a / b));
      return real(quotient - floor > 0.5 ? floor + 1 : floor);
    }
    default: {
      if (a < 0 && std::isfinite(b) && b != std::floor(b)) meter.fail("complex numbers are not supported");
      if (a == 0 && b < 0) meter.fail("0.0 cannot be raised to a negative power");
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) meter.fail("the result of ** is too large");
      return real(result);
    }
  }
}

Value repeated(const Value& value, int64_t count, Meter& meter) {
  count = std::max<int64_t>(count, 0);
  const bool is_text = value.text() != nullptr;
  const size_t size = is_text ? value.text()->size() : value.sequence()->items.size() * sizeof(Value);
  size_t bytes = 0;
  if (__builtin_mul_overflow(size, static_cast<size_t>(count), &bytes)) bytes = size_t{1} << 62;
  meter.make(bytes);
  if (is_text) {
    std::string text;
    text.reserve(bytes);
    for (int64_t i = 0; i < count && size > 0; ++i) text += *value.text();
    return make_text(std::move(text), meter);
  }
  std::vector<Value> items;
  const auto& source = value.sequence()->items;
  for (int64_t i = 0; i < count && size > 0; ++i) items.insert(items.end(), source.begin(), source.end());
  return make_sequence(std::move(items), value.sequence()->flavor, meter);
}

bool is_plain(const Value& value) {
  return value.is<Value::Text>() || value.is_sequence(Sequence::Flavor::kList) ||
         value.is_sequence(Sequence::Flavor::kTuple);
}

// Text or sequences joined; nullopt where + does not join these two.
std::optional<Value> joined(const Value& left, const Value& right, Meter& meter) {
  if (left.is<Value::Text>() && right.is<Value::Text>()) {
    meter.make(left.text()->size() + right.text()->size());
    return make_text(*left.text() + *right.text(), meter);
  }
  const Sequence *a = left.sequence(), *b = right.sequence();
  if (!is_plain(left) || a == nullptr || b == nullptr || a->flavor != b->flavor) return std::nullopt;
  std::vector<Value> items = a->items;
  items.insert(items.end(), b->items.begin(), b->items.end());
  return make_sequence(std::move(items), a->flavor, meter);
}

bool less_sequences(const std::vector<Value>& left, const std::vector<Value>& right, Meter& meter) {
  for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
    if (!equal(left[i], right[i], meter)) return less(left[i], right[i], meter);
  }
  return left.size() < right.size();
}

}  // namespace

Value arithmetic(BinaryOperator operation, const Value& left, const Value& right, Meter& meter) {
  if (operation == BinaryOperator::kModulo && left.is<Value::Text>()) {
    return make_text(format_percent(*left.text(), right, meter), meter);
  }
  const auto a = left.integer(), b = right.integer();
  if (a && b) return on_integers(operation, *a, *b, meter);
  const auto x = left.number(), y = right.number();
  if (x && y) return on_floats(operation, *x, *y, meter);
  if (operation == BinaryOperator::kAdd) {
    if (auto result = joined(left, right, meter)) return *result;
  }
  if (operation == BinaryOperator::kMultiply && b && is_plain(left)) return repeated(left, *b, meter);
  if (operation == BinaryOperator::kMultiply && a && is_plain(right)) return repeated(right, *a, meter);
  refuse_both(operation, left, right, meter);
}

Value negated(const Value& operand, bool minus, Meter& meter) {
  if (const auto value = operand.integer()) {
    return minus ? on_integers(BinaryOperator::kSubtract, 0, *value, meter) : whole(*value);
  }
  if (const auto value = operand.number()) return real(minus ? -*value : *value);
  refuse(operand, std::string("expected a number after ") + (minus ? "-" : "+"), meter);
}

bool less(const Value& left, const Value& right, Meter& meter) {
  meter.step();
  const auto a = left.integer(), b = right.integer();
  if (a && b) return *a < *b;
  const auto x = left.number(), y = right.number();
  if (x && y) return *x < *y;
  if (left.text() != nullptr && right.text() != nullptr) {
    meter.read(std::min(left.text()->size(), right.text()->size()));
    return *left.text() < *right.text();  // of UTF-8, bytes are ordered as characters are
  }
  if (is_plain(left) && left.sequence() != nullptr && right.is_sequence(left.sequence()->flavor)) {
    return less_sequences(left.sequence()->items, right.sequence()->items, meter);
  }
  for (const Value* value : {&left, &right}) {
    if (value->is<Undefined>()) refuse(*value, "", meter);
  }
  meter.fail("values of types " + type_name(left) + " and " + type_name(right) + " have no order");
}

bool compare(Comparison comparison, const Value& left, const Value& right, Meter& meter) {
  const auto is_nan = [](const Value& value) {
    const auto* number = value.get_if<double>();
    return number != nullptr && std::isnan(*number);
  };
  switch (comparison) {
    case Comparison::kEqual:
      return equal(left, right, meter);
    case Comparison::kNotEqual:
      return !equal(left, right, meter);
    case Comparison::kLess:
      return less(left, right, meter);
    case Comparison::kGreater:
      return less(right, left, meter);
    case Comparison::kLessEqual:
      return !less(right, left, meter) && !is_nan(left) && !is_nan(right);
    case Comparison::kGreaterEqual:
      return !less(left, right, meter) && !is_nan(left) && !is_nan(right);
    case Comparison::kIn:
      return contains(right, left, meter);
    case Comparison::kNotIn:
      return !contains(right, left, meter);
  }
  return false;
}

}  // namespace fathom::jinja
