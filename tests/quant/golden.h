// Golden values of scripts/golden/quant.py and runs of random values.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/json_value.h"
#include "base/split_mix.h"

namespace fathom::quant {

inline const Json& golden_blocks() {
  static const Json blocks = read_json(FATHOM_SOURCE_DIR "/tests/quant/golden/blocks.json");
  return blocks;
}

// The array whose bytes are written as hexadecimal digits.
template <typename Element>
std::vector<Element> array_of(const Json& digits) {
  const std::string& text = digits.get_ref<const std::string&>();
  std::vector<uint8_t> bytes(text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  }
  std::vector<Element> elements(bytes.size() / sizeof(Element));
  std::memcpy(elements.data(), bytes.data(), bytes.size());
  return elements;
}

// The same bits: 0 and -0 differ, NaN is equal to itself.
template <typename Element>
int64_t count_different(const std::vector<Element>& a, const std::vector<Element>& b) {
  EXPECT_EQ(a.size(), b.size());
  int64_t different = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) different += std::memcmp(&a[i], &b[i], sizeof a[i]) != 0;
  return different;
}

// About normal, as weights are: a sum of uniform numbers.
inline std::vector<float> random_run(uint64_t seed, int64_t n, double deviation) {
  SplitMix64 random(seed);
  std::vector<float> values(n);
  for (float& value : values) {
    double sum = -2;
    for (int i = 0; i < 4; ++i) sum += random.uniform();
    value = static_cast<float>(sum * std::sqrt(3.0) * deviation);
  }
  return values;
}

}  // namespace fathom::quant
