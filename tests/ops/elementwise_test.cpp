// RMS normalisation, rotary positions and SwiGLU against ATen's formulas in double precision.
#include <cmath>

#include "ops/rms_norm.h"
#include "ops/rotary.h"
#include "ops/swiglu.h"
#include "tests/ops/compare.h"

namespace fathom::ops {
namespace {

class Elementwise : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(5); }
  at::ScalarType type_ = GetParam();
};

TEST_P(Elementwise, rms_norm) {
  const double eps = 1e-3;
  for (const int64_t width : {1, 7, 64, 770}) {
    const Operator reference = [&](const std::vector<at::Tensor>& in) {
      return in[0] * at::rsqrt((in[0] * in[0]).mean(-1, true) + eps) * in[1];
    };
    const Operator ours = [&](const std::vector<at::Tensor>& in) { return rms_norm(in[0], in[1], eps, type_); };
    expect_equal(ours, reference, {draw({53, width}, type_), draw({width}, type_)});
  }
}

TEST_P(Elementwise, rms_norm_takes_a_weight_wider_than_its_input) {
  const Operator reference = [](const std::vector<at::Tensor>& in) {
    return in[0] * at::rsqrt((in[0] * in[0]).mean(-1, true) + 1e-6) * in[1];
  };
  const Operator ours = [&](const std::vector<at::Tensor>& in) { return rms_norm(in[0], in[1], 1e-6, type_); };
  expect_equal(ours, reference, {draw({53, 18}, type_), draw({18}, at::kFloat)});
}

TEST_P(Elementwise, rms_norm_rounds_to_the_type_asked_for) {
  const at::Tensor x = draw({9, 40}, at::kFloat), weight = draw({40}, at::kFloat);
  const at::Tensor narrow = rms_norm(x, weight, 1e-6, type_);
  EXPECT_EQ(narrow.scalar_type(), type_);
  EXPECT_TRUE(narrow.equal(rms_norm(x, weight, 1e-6, at::kFloat).to(type_)));
}

TEST_P(Elementwise, rms_norm_agrees_with_its_reference_operators) {
  const at::Tensor x = draw({9, 40}, type_), weight = draw({40}, type_);
  EXPECT_LE(relative_difference(rms_norm(x, weight, 1e-6, type_), rms_norm_reference(x, weight, 1e-6, type_)),
            tolerance(type_));
}

TEST_P(Elementwise, rotary) {
  const int64_t rows = 2, length = 70, heads = 3, size = 10;
  RotaryTable table(arch::rotary_frequencies(10000, size, {}), at::kCPU, nullptr);
  const auto [cos, sin] = table.rows(5, length);
  const at::Tensor cos_S1E = at::cat({cos, cos}, -1).unsqueeze(1).to(at::kDouble);
  const at::Tensor sin_S1E = at::cat({sin, sin}, -1).unsqueeze(1).to(at::kDouble);
  const Operator reference = [&](const std::vector<at::Tensor>& in) {
    const auto halves = in[0].chunk(2, -1);
    return in[0] * cos_S1E + at::cat({-halves[1], halves[0]}, -1) * sin_S1E;
  };
  const Operator ours = [cos = cos, sin = sin](const std::vector<at::Tensor>& in) { return rotate(in[0], cos, sin); };
  expect_equal(ours, reference, {draw({rows, length, heads, size}, type_)});
}

TEST_P(Elementwise, rotary_by_operators_is_the_same) {
  RotaryTable table(arch::rotary_frequencies(500, 8, {}), at::kCPU, nullptr);
  const auto [cos, sin] = table.rows(0, 12);
  const at::Tensor x = draw({2, 12, 3, 8}, at::kFloat);
  // A type without a kernel takes the way of CUDA.
  const at::Tensor expected = rotate(x.to(at::kDouble), cos.to(at::kDouble), sin.to(at::kDouble));
  EXPECT_LE(relative_difference(rotate(x, cos, sin), expected), 1e-6);
}

TEST_P(Elementwise, swiglu) {
  const Operator reference = [](const std::vector<at::Tensor>& in) { return at::silu(in[0]) * in[1]; };
  const Operator ours = [](const std::vector<at::Tensor>& in) { return swiglu(in[0], in[1]); };
  expect_equal(ours, reference, {draw({37, 91}, type_, 4), draw({37, 91}, type_)});
}

INSTANTIATE_TEST_SUITE_P(Types, Elementwise, testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& info) { return at::toString(info.param); });

TEST(Swiglu, extreme_gates_stay_finite_and_nan_stays_nan) {
  const at::Tensor gate = at::tensor({-1000.0f, -90.0f, 0.0f, 90.0f, 1000.0f});
  const at::Tensor out = swiglu(gate, at::ones_like(gate));
  EXPECT_TRUE(at::allclose(out, at::silu(gate), 1e-6, 1e-30));
  EXPECT_TRUE(swiglu(at::full({20}, NAN), at::ones({20})).isnan().all().item<bool>());
}

TEST(RotaryTable, follows_the_formula_as_it_grows) {
  RotaryTable table(arch::rotary_frequencies(777, 14, {}), at::kCPU, nullptr);
  table.rows(0, 3);
  const auto [cos, sin] = table.rows(1000, 1);
  for (int64_t i = 0; i < 7; ++i) {
    const double angle = 1000 * std::pow(777.0, -2.0 * static_cast<double>(i) / 14);
    EXPECT_NEAR(cos[0][i].item<double>(), std::cos(angle), 2e-4);  // the angle itself has FP32's 24 bits
    EXPECT_NEAR(sin[0][i].item<double>(), std::sin(angle), 2e-4);
  }
}

}  // namespace
}  // namespace fathom::ops
