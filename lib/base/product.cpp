// Multiplies and writes out.
#include "base/product.h"

#include "base/bytes.h"
#include "base/error.h"

namespace fathom {

int64_t value_of(const Product& product) {
  int64_t value = 1;
  for (const Factor& factor : product) {
    if (factor.count < 0 || __builtin_mul_overflow(value, factor.count, &value)) {
      throw Error("a tensor of the plan is larger than 2^63 bytes: " + format_product(product), kSmallerBatch);
    }
  }
  return value;
}

std::string format_product(const Product& product) {
  std::string text;
  for (const Factor& factor : product) {
    if (!text.empty() && !text.ends_with(" of ")) text += " × ";
    text += format_count(factor.count);
    if (*factor.unit != '\0') text += std::string(" ") + factor.unit;
    if (text.ends_with(" of")) text += " ";
  }
  return text;
}

}  // namespace fathom
