// Rows of 16 bits widened and rounded: every number of FP16 and BF16, and what lies between them, as c10 has it.
#include "cpu/row_blocks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "ops/rows.h"

namespace fathom::ops {
namespace {

class RowBlocks : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  // All 65,536 bit patterns.
  at::Tensor all() const { return at::arange(65536, at::kInt).to(at::kShort).view(GetParam()); }
  at::Tensor converted(const at::Tensor& from, at::ScalarType type) const {
    at::Tensor to = at::empty_like(from, from.options().dtype(type));
    cpu::convert(rows(from), rows(to), 0, from.numel());
    return to;
  }
};

// NaN counts as NaN, whatever its bits.
void expect_same(const at::Tensor& actual, const at::Tensor& expected) {
  EXPECT_TRUE(actual.isnan().equal(expected.isnan()));
  EXPECT_TRUE(actual.masked_fill(actual.isnan(), 0).equal(expected.masked_fill(expected.isnan(), 0)));
  EXPECT_TRUE(at::signbit(actual).logical_or(actual.isnan()).equal(at::signbit(expected).logical_or(expected.isnan())));
}

TEST_P(RowBlocks, widen_every_number) { expect_same(converted(all(), at::kFloat), all().to(at::kFloat)); }

TEST_P(RowBlocks, give_every_number_back) { expect_same(converted(converted(all(), at::kFloat), GetParam()), all()); }

TEST_P(RowBlocks, round_to_the_nearest_and_ties_to_even) {
  const at::Tensor wide = all().to(at::kFloat), finite = wide.index({wide.isfinite()});
  const at::Tensor sorted = std::get<0>(at::sort(finite));
  const at::Tensor between =
      (sorted.narrow(0, 0, sorted.numel() - 1) / 2 + sorted.narrow(0, 1, sorted.numel() - 1) / 2);
  for (const float direction : {0.0f, -INFINITY, INFINITY}) {
    const at::Tensor values = direction == 0 ? between : at::nextafter(between, at::full({}, direction));
    expect_same(converted(values, GetParam()), values.to(GetParam()));
  }
}

TEST_P(RowBlocks, round_any_number) {
  std::mt19937 random(5);
  std::vector<float> values = {0.0f, -0.0f, 65504.0f, 65519.99f, 65520.0f, 65536.0f, 1e38f, 3e-8f, 2.98e-8f, 1e-45f};
  for (int i = 0; i < 200000; ++i) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  const at::Tensor tensor = at::tensor(values);
  expect_same(converted(tensor, GetParam()), tensor.to(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Types, RowBlocks, ::testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto& info) { return at::toString(info.param); });

}  // namespace
}  // namespace fathom::ops
