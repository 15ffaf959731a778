// A size as a product whose numbers a person can check: 8,192 tokens × 4,096 × 2 bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fathom {

// One number of a product, with the word that follows it: {8192, "tokens"}.
struct Factor {
  int64_t count = 0;
  const char* unit = "";
  bool operator==(const Factor&) const = default;
};
using Product = std::vector<Factor>;

// What to do where a batch makes a figure too large.
inline constexpr const char* kSmallerBatch =
    "lower per_device_train_batch_size, max_length or pad_to_multiple_of, as far as they make it so large";

// Throws Error where the product leaves int64; 1 for no factors.
int64_t value_of(const Product& product);
// "2 of 8,192 tokens × 4,096 × 4 bytes".
std::string format_product(const Product& product);

}  // namespace fathom
