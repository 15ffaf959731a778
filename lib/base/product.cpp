// Multiplies and writes out.
#include "base/product.h"

#include "base/bytes.h"

namespace fathom {

int64_t value_of(const Product& product) {
  int64_t value = 1;
  for (const Factor& factor : product) value = checked_multiply(value, factor.count, "a tensor of the plan");
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
