// Arithmetic of NCCL's collectives, in the types and the order of roundings of the sum over a ring.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "nccl_parts.h"

size_t nccl_width(int type) {
  static const size_t widths[kTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < kTypes ? widths[type] : 0;
}

// Of the small floating-point types: bits of the fraction, the exponent's bias, and whether there are infinities (e4m3
// has none, and one pattern alone that is no number).
static const struct small {
  int fraction, exponent;
  bool has_infinity;
} smalls[kTypes] = {
    [kHalf] = {10, 5, true}, [kBfloat16] = {7, 8, true}, [kE4m3] = {3, 4, false}, [kE5m2] = {2, 5, true}};

static double decode(const struct small* type, unsigned bits) {
  const int fractions = 1 << type->fraction, exponents = 1 << type->exponent, bias = exponents / 2 - 1;
  const int fraction = (int)bits & (fractions - 1), exponent = (int)(bits >> type->fraction) & (exponents - 1);
  const double sign = bits >> (type->fraction + type->exponent) & 1 ? -1 : 1;
  const bool is_last = exponent == exponents - 1;
  if (is_last && type->has_infinity) return fraction ? NAN : sign * INFINITY;
  if (is_last && fraction == fractions - 1) return NAN;
  if (exponent == 0) return sign * ldexp(fraction, 1 - bias - type->fraction);
  return sign * ldexp(fractions + fraction, exponent - bias - type->fraction);
}

// To the nearest, of two the even one. What is too large becomes infinite, or the largest number where there is none.
static unsigned encode(const struct small* type, double value) {
  const int fractions = 1 << type->fraction, exponents = 1 << type->exponent, bias = exponents / 2 - 1;
  const unsigned sign = signbit(value) ? 1u << (type->fraction + type->exponent) : 0;
  const unsigned infinity = (unsigned)(exponents - 1) << type->fraction;
  const unsigned largest = type->has_infinity ? infinity : infinity + (unsigned)fractions - 2;
  if (isnan(value)) return sign | (type->has_infinity ? infinity | (unsigned)fractions / 2 : largest + 1);
  int exponent = 0;
  frexp(value, &exponent);
  exponent = exponent - 1 < 1 - bias || value == 0 ? 1 - bias : exponent - 1;
  const double steps = nearbyint(ldexp(fabs(value), type->fraction - exponent));
  // A fraction that rounding fills runs over into the exponent, which is its next bit.
  if (isinf(value) || exponent > bias + 1) return sign | largest;
  const unsigned bits = (unsigned)steps + ((unsigned)(exponent + bias - 1) << type->fraction);
  return sign | (bits < largest ? bits : largest);
}

static double number_at(int type, const void* numbers, size_t i) {
  switch (type) {
    case kFloat:
      return ((const float*)numbers)[i];
    case kDouble:
      return ((const double*)numbers)[i];
    case kHalf:
    case kBfloat16:
      return decode(&smalls[type], ((const uint16_t*)numbers)[i]);
    default:
      return decode(&smalls[type], ((const uint8_t*)numbers)[i]);
  }
}
static void put_at(int type, void* numbers, size_t i, double value) {
  switch (type) {
    case kFloat:
      ((float*)numbers)[i] = (float)value;
      break;
    case kDouble:
      ((double*)numbers)[i] = value;
      break;
    case kHalf:
    case kBfloat16:
      ((uint16_t*)numbers)[i] = (uint16_t)encode(&smalls[type], value);
      break;
    default:
      ((uint8_t*)numbers)[i] = (uint8_t)encode(&smalls[type], value);
  }
}

static bool is_floating(int type) { return type == kFloat || type == kDouble || smalls[type].fraction; }

static double combined(int operation, double a, double b) {
  switch (operation) {
    case kProduct:
      return a * b;
    case kMaximum:
      return isnan(a) || a > b ? a : b;
    case kMinimum:
      return isnan(a) || a < b ? a : b;
    default:
      return a + b;
  }
}

// Whole numbers, which wrap around as a GPU's do: of any type the sum is that of the unsigned ones.
#define WHOLE(name, T, U)                  \
  static T name(int operation, T a, T b) { \
    switch (operation) {                   \
      case kProduct:                       \
        return (T)((U)a * (U)b);           \
      case kMaximum:                       \
        return a > b ? a : b;              \
      case kMinimum:                       \
        return a < b ? a : b;              \
      default:                             \
        return (T)((U)a + (U)b);           \
    }                                      \
  }
WHOLE(int8s, int8_t, unsigned)
WHOLE(uint8s, uint8_t, unsigned)
WHOLE(int32s, int32_t, uint32_t)
WHOLE(uint32s, uint32_t, uint32_t)
WHOLE(int64s, int64_t, uint64_t)
WHOLE(uint64s, uint64_t, uint64_t)
#undef WHOLE

// to[i] = what(operation, to[i], from[i × stride]): with a stride of 0 all with the same number.
static void combine_whole(int type, int operation, void* to, const void* from, size_t stride, size_t count) {
#define EACH(kind, T, what)                                                                                      \
  case kind:                                                                                                     \
    for (size_t i = 0; i < count; i++) ((T*)to)[i] = what(operation, ((T*)to)[i], ((const T*)from)[i * stride]); \
    break
  switch (type) {
    EACH(kInt8, int8_t, int8s);
    EACH(kUint8, uint8_t, uint8s);
    EACH(kInt32, int32_t, int32s);
    EACH(kUint32, uint32_t, uint32s);
    EACH(kInt64, int64_t, int64s);
    EACH(kUint64, uint64_t, uint64s);
  }
#undef EACH
}

// What a rank's numbers are multiplied by.
static double scale(const struct nccl_reduction* how) {
  if (how->factor) return number_at(how->type, how->factor, 0);
  return how->operation == kAverage ? 1.0 / how->ranks : 1;
}

void nccl_scale(const struct nccl_reduction* how, void* numbers, size_t count) {
  if (!is_floating(how->type)) {
    if (how->factor) combine_whole(how->type, kProduct, numbers, how->factor, 0, count);
    return;
  }
  const double by = scale(how);
  for (size_t i = 0; by != 1 && i < count; i++) put_at(how->type, numbers, i, by * number_at(how->type, numbers, i));
}

void nccl_add(const struct nccl_reduction* how, void* to, const void* from, size_t count) {
  if (!is_floating(how->type)) return combine_whole(how->type, how->operation, to, from, 1, count);
  for (size_t i = 0; i < count; i++) {
    put_at(how->type, to, i, combined(how->operation, number_at(how->type, to, i), number_at(how->type, from, i)));
  }
}

void nccl_end(const struct nccl_reduction* how, void* to, size_t count) {
  if (how->operation != kAverage || is_floating(how->type)) return;
#define EACH(kind, T)                                                                  \
  case kind:                                                                           \
    for (size_t i = 0; i < count; i++) ((T*)to)[i] = (T)(((T*)to)[i] / (T)how->ranks); \
    break
  switch (how->type) {
    EACH(kInt8, int8_t);
    EACH(kUint8, uint8_t);
    EACH(kInt32, int32_t);
    EACH(kUint32, uint32_t);
    EACH(kInt64, int64_t);
    EACH(kUint64, uint64_t);
  }
#undef EACH
}
