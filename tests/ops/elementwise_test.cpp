// Normalisation, rotary positions, parts of fused projections and SwiGLU against ATen's formulas in double
// precision.
#include <cmath>

#include "ops/activation.h"
#include "ops/gated_rows.h"
#include "ops/join_heads.h"
#include "ops/linear/split_columns.h"
#include "ops/norm.h"
#include "ops/rotary.h"
#include "tests/ops/compare.h"

namespace fathom::ops {
namespace {

class Elementwise : public ::testing::TestWithParam<at::ScalarType> {
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
    const Operator ours = [&](const std::vector<at::Tensor>& in) { return norm(in[0], {in[1]}, {eps}, type_); };
    expect_equal(ours, reference, {draw({53, width}, type_), draw({width}, type_)});
  }
}

TEST_P(Elementwise, rms_norm_takes_a_weight_wider_than_its_input) {
  const Operator reference = [](const std::vector<at::Tensor>& in) {
    return in[0] * at::rsqrt((in[0] * in[0]).mean(-1, true) + 1e-6) * in[1];
  };
  const Operator ours = [&](const std::vector<at::Tensor>& in) { return norm(in[0], {in[1]}, {1e-6}, type_); };
  expect_equal(ours, reference, {draw({53, 18}, type_), draw({18}, at::kFloat)});
}

TEST_P(Elementwise, rms_norm_of_weights_that_are_distances_from_one) {
  const Operator reference = [](const std::vector<at::Tensor>& in) {
    return in[0] * at::rsqrt((in[0] * in[0]).mean(-1, true) + 1e-6) * (in[1] + 1);
  };
  const Operator ours = [&](const std::vector<at::Tensor>& in) { return norm(in[0], {in[1]}, {1e-6, 1}, type_); };
  expect_equal(ours, reference, {draw({53, 18}, type_), draw({18}, type_)});
  expect_equal(ours, reference, {draw({5, 18}, type_), draw({18}, at::kFloat)});
}

TEST_P(Elementwise, rms_norm_rounds_to_the_type_asked_for) {
  const at::Tensor x = draw({9, 40}, at::kFloat), weight = draw({40}, at::kFloat);
  const at::Tensor narrow = norm(x, {weight}, {1e-6}, type_);
  EXPECT_EQ(narrow.scalar_type(), type_);
  EXPECT_TRUE(narrow.equal(norm(x, {weight}, {1e-6}, at::kFloat).to(type_)));
}

TEST_P(Elementwise, rms_norm_agrees_with_its_reference_operators) {
  const at::Tensor x = draw({9, 40}, type_), weight = draw({40}, type_);
  EXPECT_LE(relative_difference(norm(x, {weight}, {1e-6}, type_), norm_reference(x, {weight}, {1e-6}, type_)),
            tolerance(type_));
}

TEST_P(Elementwise, gated_rows) {
  for (const int64_t width : {1, 18, 770}) {
    const Operator reference = [](const std::vector<at::Tensor>& in) { return in[0] * at::sigmoid(in[1]); };
    const Operator ours = [](const std::vector<at::Tensor>& in) { return gated_rows(in[0], in[1]); };
    expect_equal(ours, reference, {draw({53, width}, type_), draw({53, 1}, type_)});
  }
}

TEST_P(Elementwise, rms_norm_without_a_weight) {
  const Operator reference = [](const std::vector<at::Tensor>& in) {
    return in[0] * at::rsqrt((in[0] * in[0]).mean(-1, true) + 1e-6);
  };
  const Operator ours = [&](const std::vector<at::Tensor>& in) { return norm(in[0], {}, {1e-6, 1}, type_); };
  expect_equal(ours, reference, {draw({53, 18}, type_)});
  const at::Tensor x = draw({9, 40}, type_);
  EXPECT_LE(relative_difference(norm(x, {}, {1e-6}, type_), norm_reference(x, {}, {1e-6}, type_)), tolerance(type_));
}

TEST_P(Elementwise, layer_norm) {
  const NormSettings settings{.eps = 1e-3, .centred = true};
  for (const int64_t width : {1, 7, 64, 770}) {
    const Operator reference = [&](const std::vector<at::Tensor>& in) {
      const at::Tensor centred = in[0] - in[0].mean(-1, true);
      const at::Tensor normed = centred * at::rsqrt((centred * centred).mean(-1, true) + settings.eps) * in[1];
      return in.size() > 2 ? normed + in[2] : normed;
    };
    const Operator ours = [&](const std::vector<at::Tensor>& in) {
      return norm(in[0], {in[1], in.size() > 2 ? in[2] : at::Tensor()}, settings, type_);
    };
    expect_equal(ours, reference, {draw({53, width}, type_), draw({width}, type_)});
    expect_equal(ours, reference, {draw({53, width}, type_), draw({width}, type_), draw({width}, type_)});
  }
}

// Some of each head, in pairs of either kind, by ATen's operators.
at::Tensor turned_by_formula(const at::Tensor& x_BSHE, const Turn& turn, bool interleaved) {
  const int64_t half = turn.cos_SE2.size(1);
  const at::Tensor cos_S1E2 = turn.cos_SE2.unsqueeze(1).to(at::kDouble);
  const at::Tensor sin_S1E2 = turn.sin_SE2.unsqueeze(1).to(at::kDouble);
  const at::Tensor front = x_BSHE.narrow(3, 0, 2 * half), rest = x_BSHE.narrow(3, 2 * half, x_BSHE.size(3) - 2 * half);
  const at::Tensor low = interleaved ? front.slice(3, 0, 2 * half, 2) : front.narrow(3, 0, half);
  const at::Tensor high = interleaved ? front.slice(3, 1, 2 * half, 2) : front.narrow(3, half, half);
  const at::Tensor a = low * cos_S1E2 - high * sin_S1E2, b = high * cos_S1E2 + low * sin_S1E2;
  return at::cat({interleaved ? at::stack({a, b}, -1).flatten(3) : at::cat({a, b}, -1), rest}, -1);
}

TEST_P(Elementwise, rotary) {
  for (const bool interleaved : {false, true}) {
    for (const int64_t width : {10, 6}) {
      RotaryTable table({.width = width, .interleaved = interleaved}, at::kCPU, nullptr);
      const Turns turns = table.rows(5, 70);
      EXPECT_EQ(turns.interleaved, interleaved);
      const Operator reference = [&](const std::vector<at::Tensor>& in) {
        return turned_by_formula(in[0], turns.keys, interleaved);
      };
      const Operator ours = [&](const std::vector<at::Tensor>& in) { return rotate(in[0], turns.keys, interleaved); };
      expect_equal(ours, reference, {draw({2, 70, 3, 10}, type_)});
    }
  }
}

TEST_P(Elementwise, rotary_by_operators_is_the_same) {
  for (const bool interleaved : {false, true}) {
    for (const int64_t width : {8, 4}) {
      RotaryTable table({.width = width, .theta = 500}, at::kCPU, nullptr);
      const Turn turn = table.rows(0, 12).keys;
      const at::Tensor x = draw({2, 12, 3, 8}, at::kFloat);
      // A type without a kernel takes the way of CUDA.
      const Turn wide{turn.cos_SE2.to(at::kDouble), turn.sin_SE2.to(at::kDouble)};
      const at::Tensor expected = rotate(x.to(at::kDouble), wide, interleaved);
      EXPECT_LE(relative_difference(rotate(x, turn, interleaved), expected), 1e-6);
    }
  }
}

TEST_P(Elementwise, split_columns) {
  const std::vector<int64_t> widths = {5, 1, 9};
  for (const int64_t part : {0, 1, 2}) {
    const Operator reference = [&](const std::vector<at::Tensor>& in) {
      return in[0].split_with_sizes(widths, 1)[part];
    };
    const Operator ours = [&](const std::vector<at::Tensor>& in) {
      return split_columns(in[0], 1, {{5}, {1}, {9}})[part];
    };
    for (const int64_t rows : {1, 37}) expect_equal(ours, reference, {draw({rows, 15}, type_)});
  }
  const at::Tensor x = draw({1, 15}, type_);
  const at::Tensor first = split_columns(x, 1, {{5}, {1}, {9}})[0];
  EXPECT_TRUE(first.is_contiguous());
  EXPECT_NE(first.data_ptr(), x.data_ptr()) << "of one row too, a part is nobody else's";
}

// As attention's output is taken of heads that were widened by zeros.
TEST_P(Elementwise, split_columns_leave_out_what_is_behind_them) {
  const Operator ours = [](const std::vector<at::Tensor>& in) { return split_columns(in[0], 3, {{4}})[0]; };
  const Operator reference = [](const std::vector<at::Tensor>& in) {
    return in[0].view({-1, 3, 7}).narrow(2, 0, 4).flatten(1);
  };
  for (const int64_t rows : {1, 37}) expect_equal(ours, reference, {draw({rows, 21}, type_)});
}

// Three heads of four numbers and two that they share; and of four numbers and three zeros. Sums over heads are rounded
// once.
TEST_P(Elementwise, join_heads) {
  const Operator shared = [](const std::vector<at::Tensor>& in) { return join_heads(in[0], in[1], 3, 6); };
  const Operator of_shared = [](const std::vector<at::Tensor>& in) {
    return at::cat({in[0].view({-1, 3, 4}), in[1].unsqueeze(1).expand({-1, 3, -1})}, 2).flatten(1);
  };
  const Operator widened = [](const std::vector<at::Tensor>& in) { return join_heads(in[0], {}, 3, 7); };
  const Operator of_widened = [](const std::vector<at::Tensor>& in) {
    return at::constant_pad_nd(in[0].view({-1, 3, 4}), {0, 3}).flatten(1);
  };
  for (const int64_t rows : {1, 37}) {
    expect_equal(shared, of_shared, {draw({rows, 12}, type_), draw({rows, 2}, type_)});
    expect_equal(widened, of_widened, {draw({rows, 12}, type_)});
  }
}

// As Qwen3-Next lays queries, keys, values and gates of each key head: the first three of all heads beside each other.
TEST_P(Elementwise, split_columns_of_groups) {
  for (const int64_t made : {0, 1}) {
    const Operator ours = [&](const std::vector<at::Tensor>& in) {
      return split_columns(in[0], 3, {{2, 2, 4}, {5}})[made];
    };
    const Operator reference = [&](const std::vector<at::Tensor>& in) {
      const at::Tensor groups = in[0].view({-1, 3, 13});
      const auto part = [&](int64_t first, int64_t width) { return groups.narrow(2, first, width).flatten(1); };
      return made == 1 ? part(8, 5) : at::cat({part(0, 2), part(2, 2), part(4, 4)}, 1);
    };
    for (const int64_t rows : {1, 37}) expect_equal(ours, reference, {draw({rows, 39}, type_)});
  }
}

constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGelu, Activation::kRelu,
                                       Activation::kSquaredRelu, Activation::kSigmoid};

at::Tensor reference_of(Activation activation, const at::Tensor& x) {
  if (activation == Activation::kRelu) return at::relu(x);
  if (activation == Activation::kSquaredRelu) return at::relu(x).square();
  if (activation == Activation::kSigmoid) return at::sigmoid(x);
  return activation == Activation::kSilu ? at::silu(x) : at::gelu(x, "tanh");
}

TEST_P(Elementwise, gated) {
  for (const Activation activation : kActivations) {
    const Operator reference = [=](const std::vector<at::Tensor>& in) {
      return reference_of(activation, in[0]) * in[1];
    };
    const Operator ours = [=](const std::vector<at::Tensor>& in) { return gated(activation, in[0], in[1]); };
    expect_equal(ours, reference, {draw({37, 91}, type_, 4), draw({37, 91}, type_)});
  }
}

TEST_P(Elementwise, activated) {
  for (const Activation activation : kActivations) {
    const Operator reference = [=](const std::vector<at::Tensor>& in) { return reference_of(activation, in[0]); };
    const Operator ours = [=](const std::vector<at::Tensor>& in) { return activated(activation, in[0]); };
    expect_equal(ours, reference, {draw({37, 91}, type_, 4)});
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Elementwise, ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& info) { return at::toString(info.param); });

TEST(Gated, extreme_gates_stay_finite_and_nan_stays_nan) {
  const at::Tensor gate = at::tensor({-1000.0f, -90.0f, 0.0f, 90.0f, 1000.0f});
  for (const Activation activation : kActivations) {
    const at::Tensor out = gated(activation, gate, at::ones_like(gate));
    EXPECT_TRUE(at::allclose(out, reference_of(activation, gate), 1e-6, 1e-30));
    EXPECT_TRUE(gated(activation, at::full({20}, NAN), at::ones({20})).isnan().all().item<bool>());
    const GateGradients made = gated_backward(activation, at::ones_like(gate), gate, at::ones_like(gate));
    EXPECT_TRUE(made.gate_TF.isfinite().all().item<bool>()) << made.gate_TF;
  }
}

TEST(RotaryTable, follows_the_formula_as_it_grows) {
  RotaryTable table({.width = 14, .theta = 777}, at::kCPU, nullptr);
  table.rows(0, 3);
  const Turn turn = table.rows(1000, 1).keys;
  for (int64_t i = 0; i < 7; ++i) {
    const double angle = 1000 * std::pow(777.0, -2.0 * static_cast<double>(i) / 14);
    EXPECT_NEAR(turn.cos_SE2[0][i].item<double>(), std::cos(angle), 2e-4);  // the angle itself has FP32's 24 bits
    EXPECT_NEAR(turn.sin_SE2[0][i].item<double>(), std::sin(angle), 2e-4);
  }
}

TEST(RotaryTable, scales_queries_alone_and_by_their_position) {
  RotaryTable plain({.width = 4}, at::kCPU, nullptr);
  const Turns shared = plain.rows(0, 9);
  EXPECT_TRUE(shared.queries.cos_SE2.is_same(shared.keys.cos_SE2)) << "nothing is made twice";
  RotaryTable table({.width = 4, .query_scale = 3, .query_growth = 0.5, .query_growth_positions = 8}, at::kCPU,
                    nullptr);
  const Turns turns = table.rows(0, 30), usual = plain.rows(0, 30);
  EXPECT_TRUE(turns.keys.cos_SE2.equal(usual.keys.cos_SE2));
  for (const int64_t position : {0, 7, 8, 29}) {
    const double scale = 3 * (1 + 0.5 * std::log(1.0 + static_cast<double>(position / 8)));
    const at::Tensor expected = usual.keys.sin_SE2[position] * scale;
    EXPECT_TRUE(at::allclose(turns.queries.sin_SE2[position], expected, 1e-6, 1e-7)) << position;
  }
}

TEST(RotaryTable, of_longrope_are_others_beyond_the_original_positions) {
  const arch::LongRope longrope{{1, 2}, {8, 9}, 20};
  RotaryTable table({.width = 4, .scaling = longrope, .magnitude = 1.5}, at::kCPU, nullptr);
  const auto angle = [](const Turn& turn) {
    return std::atan2(turn.sin_SE2[3][0].item<double>(), turn.cos_SE2[3][0].item<double>());
  };
  EXPECT_NEAR(angle(table.rows(0, 20).keys), 3, 1e-6);
  EXPECT_NEAR(angle(table.rows(0, 21).keys), 3.0 / 8, 1e-6);
  EXPECT_NEAR(angle(table.rows(0, 4).keys), 3, 1e-6) << "a shorter pass again";
  EXPECT_NEAR(table.rows(0, 1).keys.cos_SE2[0][0].item<double>(), 1.5, 1e-7);
}

}  // namespace
}  // namespace fathom::ops
