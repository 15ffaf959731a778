// fathom's CUDA kernels, played on the CPU thread by thread, against the CPU's own kernels and ATen's formulas.
#include "tests/ops/cuda_on_cpu.h"

// Its sources, with what stands above for CUDA.
#include "ops/cuda/launch.cu"
// After them:
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/rounding.h"
#include "ops/cross_entropy.h"
#include "ops/cuda_kernels.h"
#include "ops/quantized_matrix.h"
#include "ops/rotary.h"
#include "ops/rows.h"
#include "tests/ops/compare.h"
#include "tests/ops/quant_tables.h"

namespace fathom::ops {
namespace {

const CudaKernels& on_cpu() { return *fathom_cuda_kernels(); }

class CudaKernelsOf : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(11); }
  // Of a whole number of the widest accesses to memory, or not; from where such an access may begin, or not.
  at::Tensor draw_at(at::IntArrayRef shape, bool aligned, double spread = 1) const {
    const int64_t count = c10::multiply_integers(shape), skipped = aligned ? 0 : 1;
    return draw({count + skipped}, GetParam(), spread).narrow(0, skipped, count).view(shape);
  }
};

TEST_P(CudaKernelsOf, swiglu) {
  for (const auto& [elements, aligned] :
       std::vector<std::pair<int64_t, bool>>{{1, true}, {4096, true}, {4096, false}, {2051, true}}) {
    const at::Tensor gate = draw_at({elements}, aligned, 4), up = draw_at({elements}, aligned);
    const at::Tensor grad_out = draw_at({elements}, aligned);
    at::Tensor out = at::empty_like(gate), grad_gate = at::empty_like(gate), grad_up = at::empty_like(gate);
    ASSERT_EQ(on_cpu().swiglu(rows(gate), rows(up), rows(out), elements, nullptr), 0);
    ASSERT_EQ(on_cpu().swiglu_backward(rows(grad_out), rows(gate), rows(up), rows(grad_gate), rows(grad_up), elements,
                                       nullptr),
              0);
    const at::Tensor wide_gate = gate.to(at::kDouble).set_requires_grad(true);
    const at::Tensor wide_up = up.to(at::kDouble).set_requires_grad(true);
    const at::Tensor expected = at::silu(wide_gate) * wide_up;
    torch::autograd::backward({expected}, {grad_out.to(at::kDouble)});
    EXPECT_LE(relative_difference(out, expected), tolerance(GetParam()));
    EXPECT_LE(relative_difference(grad_gate, wide_gate.grad()), tolerance(GetParam()));
    EXPECT_LE(relative_difference(grad_up, wide_up.grad()), tolerance(GetParam()));
  }
}

TEST_P(CudaKernelsOf, moves_sixteen_bytes_at_a_time_where_it_can) {
  const at::Tensor values = draw_at({8192}, true);
  at::Tensor out = at::empty_like(values);
  ASSERT_EQ(on_cpu().swiglu(rows(values), rows(values), rows(out), 8192, nullptr), 0);
  EXPECT_EQ(played_blocks * played_threads, 8192 * values.element_size() / 16);
}

TEST_P(CudaKernelsOf, rotate) {
  const int64_t length = 9, heads = 3;
  for (const int64_t size : {2, 10, 16, 64}) {
    RotaryTable table({.width = size}, at::kCPU, nullptr);
    const Turn keys = table.rows(0, length).keys;
    const at::Tensor x_BSHE = draw_at({2, length, heads, size}, size != 16);
    at::Tensor out_BSHE = at::empty_like(x_BSHE), back_BSHE = at::empty_like(x_BSHE);
    const auto turn = [&](const at::Tensor& from, const at::Tensor& to, float direction) {
      return on_cpu().rotate(rows(from), keys.cos_SE2.data_ptr<float>(), keys.sin_SE2.data_ptr<float>(), rows(to),
                             from.numel() / size, heads, length, size, direction, nullptr);
    };
    ASSERT_EQ(turn(x_BSHE, out_BSHE, 1), 0);
    ASSERT_EQ(turn(out_BSHE, back_BSHE, -1), 0);
    EXPECT_LE(relative_difference(out_BSHE, ops::rotate(x_BSHE, keys)), tolerance(GetParam()));
    EXPECT_LE(relative_difference(back_BSHE, x_BSHE), tolerance(GetParam()));
  }
}

TEST_P(CudaKernelsOf, cross_entropy) {
  for (const auto& [size, aligned] :
       std::vector<std::pair<int64_t, bool>>{{5, true}, {1031, true}, {4096, true}, {4096, false}}) {
    const int64_t vocabulary = size;
    const at::Tensor logits_CV = draw_at({4, vocabulary}, aligned, 5);
    logits_CV[1].fill_(-INFINITY)[3] = 2;
    const at::Tensor targets_C = at::tensor({vocabulary - 1, int64_t{3}, kIgnoredTarget, int64_t{0}}, at::kLong);
    at::Tensor kept_CV = logits_CV.clone(), expected_CV = logits_CV.clone(), expected = at::zeros({});
    add_cross_entropy(expected, expected_CV, targets_C, 7, 1);
    at::Tensor losses_C = at::full({4}, NAN);
    const auto play = [&](float scale) {
      return on_cpu().cross_entropy(rows(logits_CV), targets_C.data_ptr<int64_t>(), kIgnoredTarget, scale,
                                    losses_C.data_ptr<float>(), 4, vocabulary, nullptr);
    };
    ASSERT_EQ(play(0), 0);
    EXPECT_TRUE(logits_CV.equal(kept_CV)) << "logits are kept where no gradient is asked for";
    ASSERT_EQ(play(1 / 7.0f), 0);
    EXPECT_LE(relative_difference(losses_C.sum() / 7, expected), tolerance(at::kFloat));
    EXPECT_EQ(losses_C[2].item<float>(), 0);
    EXPECT_LE(relative_difference(logits_CV, expected_CV), tolerance(GetParam()));
  }
}

TEST_P(CudaKernelsOf, cross_entropy_of_nan_and_of_no_token_is_nan) {
  const at::Tensor logits_CV = draw_at({3, 40}, true);
  logits_CV[1][7] = NAN;
  const at::Tensor targets_C = at::tensor({int64_t{40}, int64_t{0}, int64_t{-3}}, at::kLong);
  const at::Tensor losses_C = at::zeros({3});
  ASSERT_EQ(on_cpu().cross_entropy(rows(logits_CV), targets_C.data_ptr<int64_t>(), kIgnoredTarget, 0,
                                   losses_C.data_ptr<float>(), 3, 40, nullptr),
            0);
  EXPECT_TRUE(losses_C.isnan().all().item<bool>());
}

// Whole packs and single values, blocks across the ends of rows, short last blocks, more than one block of threads; the
// columns of INT4 are whole groups.
TEST_P(CudaKernelsOf, dequantize_has_the_bits_of_the_CPU) {
  using enum quant::Scheme;
  for (const quant::Scheme scheme : {kInt8, kFp8, kNf4, kNf4DoubleQuant, kInt4Group128, kInt4Group16}) {
    for (const auto& [rows, columns] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 128}, {7, 51}, {5, 96}, {130, 640}, {65, 33}}) {
      const int64_t width = quant::is_int4(scheme) ? round_up(columns, quant::block_of(scheme)) : columns;
      const at::Tensor values_ND = draw_at({rows, width}, true, 0.1).to(at::kFloat);
      if (rows > 4) values_ND[2].zero_(), values_ND[3][width - 1] = NAN;
      const QuantizedMatrix matrix = empty_quantized_matrix(scheme, rows, width, at::kCPU, tables_on_cpu(scheme));
      quantize(matrix, [&](int64_t first, const at::Tensor& part_RD) {
        part_RD.copy_(values_ND.narrow(0, first, part_RD.size(0)));
      });
      const at::Tensor expected_ND = dequantize(matrix, GetParam());
      for (const bool aligned : {true, false}) {
        const at::Tensor out_ND = draw_at({rows, width}, aligned);
        ASSERT_EQ(on_cpu().dequantize(coded(matrix), ops::rows(out_ND), nullptr), 0);
        EXPECT_TRUE(at::allclose(out_ND, expected_ND, 0, 0, /*equal_nan=*/true))
            << quant::name_of(scheme) << " " << rows << " x " << width << (aligned ? "" : ", unaligned");
      }
    }
  }
}

TEST_P(CudaKernelsOf, dequantize_reads_every_code) {
  const at::Tensor bytes = at::arange(256, at::kByte);
  for (const quant::Scheme scheme :
       {quant::Scheme::kInt8, quant::Scheme::kFp8, quant::Scheme::kNf4, quant::Scheme::kInt4Group128}) {
    const int64_t columns = quant::is_in_4_bits(scheme) ? 512 : 256;
    QuantizedMatrix matrix = empty_quantized_matrix(scheme, 1, columns, at::kCPU, tables_on_cpu(scheme));
    matrix.codes.view(at::kByte).view({-1}).copy_(bytes);
    matrix.scales.fill_(0.37);
    const at::Tensor out_ND = draw_at({1, columns}, true);
    ASSERT_EQ(on_cpu().dequantize(coded(matrix), ops::rows(out_ND), nullptr), 0);
    EXPECT_TRUE(at::allclose(out_ND, dequantize(matrix, GetParam()), 0, 0, /*equal_nan=*/true))
        << quant::name_of(scheme);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CudaKernelsOf, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return at::toString(info.param); });

TEST(CudaKernels, rounds_to_nearest_even_as_BF16_does) {
  for (const float value : {1.0f, 1.00390625f, 1.01171875f, -3.14159f, 1e-40f, 3.4e38f, INFINITY, -0.0f, NAN}) {
    const auto expected = c10::BFloat16(value);
    const bool is_nan = std::isnan(value) && std::isnan(cuda::widen(cuda::rounded<cuda::BFloat16>(value)));
    EXPECT_TRUE(is_nan || cuda::rounded<cuda::BFloat16>(value).bits == expected.x) << value;
  }
}

TEST(CudaKernels, launches_nothing_for_nothing) {
  played_blocks = 0;
  EXPECT_EQ(on_cpu().swiglu({}, {}, {}, 0, nullptr), 0);
  EXPECT_EQ(on_cpu().cross_entropy({}, nullptr, -100, 0, nullptr, 0, 40, nullptr), 0);
  EXPECT_EQ(on_cpu().dequantize({}, {}, nullptr), 0);
  EXPECT_EQ(played_blocks, 0);
}

TEST(CudaKernels, a_grid_larger_than_any_is_refused) {
  EXPECT_NE(on_cpu().swiglu({}, {}, {}, int64_t{1} << 45, nullptr), 0);
  EXPECT_NE(on_cpu().cross_entropy({}, nullptr, -100, 0, nullptr, int64_t{1} << 31, 40, nullptr), 0);
  CodedMatrix matrix;
  matrix.values = matrix.values_per_scale = int64_t{1} << 31;
  EXPECT_NE(on_cpu().dequantize(matrix, {}, nullptr), 0) << "a row longer than the kernel counts";
}

// This test program does hold the library's symbol, but exports nothing.
TEST(CudaKernels, are_refused_where_the_program_was_built_without) { EXPECT_THROW(use_cuda_kernels(true), Error); }

TEST(CudaKernels, take_no_tensor_of_the_CPU) { EXPECT_EQ(cuda_kernels_for(at::zeros({3})), nullptr); }

}  // namespace
}  // namespace fathom::ops
