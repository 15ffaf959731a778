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
#include "ops/quantized/fp8_rows.h"
#include "ops/quantized/quantized_matrix.h"
#include "ops/rotary.h"
#include "ops/rows.h"
#include "tests/ops/compare.h"
#include "tests/ops/quant_tables.h"

namespace fathom::ops::cuda_kernels_test {
namespace {

const CudaKernels& on_cpu() { return *fathom_cuda_kernels(); }

class CudaKernelsOf : public ::testing::TestWithParam<at::ScalarType> {
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
    at::Tensor again = grad_out.clone();
    ASSERT_EQ(on_cpu().swiglu_backward(rows(again), rows(gate), rows(up), rows(grad_gate), rows(grad_up), rows(again),
                                       elements, nullptr),
              0);
    EXPECT_TRUE(again.equal(out)) << "in place of the gradient, bit for bit";
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

// Widths for one to four packs a thread, warps of which some threads have none, more rows than sums.
TEST_P(CudaKernelsOf, norm) {
  const double eps = 1e-3, offset = 0.5;
  for (const auto& [count, of_row] :
       std::vector<std::pair<int64_t, int64_t>>{{3, 8}, {515, 24}, {5, 2040}, {2, 4096}, {2, 8200}, {1, 16384}}) {
    const int64_t tokens = count, width = of_row;
    for (const auto& [of_weight, of_out] : std::vector<std::pair<at::ScalarType, at::ScalarType>>{
             {GetParam(), GetParam()}, {at::kFloat, GetParam()}, {at::kFloat, at::kBFloat16}}) {
      const at::Tensor x_TD = draw_at({tokens, width}, true, 2), weight_D = draw({width}, of_weight);
      const at::Tensor grad_out_TD = draw({tokens, width}, of_out), stream_TD = draw_at({tokens, width}, true);
      const at::Tensor rstd_T = at::empty({tokens}), sums_SD = at::full({std::min(tokens, kNormSums), width}, NAN);
      at::Tensor out_TD = at::empty_like(grad_out_TD), grad_weight_D = at::empty_like(weight_D);
      const cpu::Norm norm{rows(weight_D), {}, offset, eps};
      ASSERT_EQ(on_cpu().norm(rows(x_TD), norm, rows(out_TD), rstd_T.data_ptr<float>(), tokens, width, nullptr), 0);
      const auto back = [&](const cpu::Rows& grad_stream, const at::Tensor& grad_TD, const cpu::Rows& grad_weight) {
        ASSERT_EQ(on_cpu().norm_backward(rows(grad_out_TD), rows(x_TD), norm, rstd_T.data_ptr<float>(), grad_stream,
                                         rows(grad_TD), grad_weight, sums_SD.data_ptr<float>(), tokens, width, nullptr),
                  0);
      };
      at::Tensor alone_TD = at::empty_like(x_TD), met_TD = stream_TD.clone();
      back({}, alone_TD, {});
      const bool of_rows_alone = width == kWidestRow;  // whose columns take long to be added up here
      back(rows(met_TD), met_TD, of_rows_alone ? cpu::Rows() : rows(grad_weight_D));

      const at::Tensor wide_TD = x_TD.to(at::kDouble).set_requires_grad(true);
      const at::Tensor wide_D = weight_D.to(at::kDouble).set_requires_grad(true);
      const at::Tensor expected_TD = wide_TD * at::rsqrt((wide_TD * wide_TD).mean(-1, true) + eps) * (wide_D + offset);
      torch::autograd::backward({expected_TD}, {grad_out_TD.to(at::kDouble)});
      const std::string what = std::to_string(tokens) + " x " + std::to_string(width);
      EXPECT_LE(relative_difference(out_TD, expected_TD), tolerance(of_out)) << what;
      EXPECT_LE(relative_difference(alone_TD, wide_TD.grad()), tolerance(GetParam())) << what;
      EXPECT_LE(relative_difference(met_TD, wide_TD.grad() + stream_TD), tolerance(GetParam())) << what;
      if (of_rows_alone) continue;
      EXPECT_LE(relative_difference(grad_weight_D, wide_D.grad()), tolerance(of_weight)) << what;
    }
  }
}

// A row of zeros, one with NaN; columns of different sizes.
TEST_P(CudaKernelsOf, fp8_rows) {
  for (const auto& [width, with_columns] :
       std::vector<std::pair<int64_t, bool>>{{8, false}, {264, true}, {4104, true}}) {
    const at::Tensor x_TD = draw_at({5, width}, true, 3), columns_D = draw({width}, at::kFloat).exp_();
    x_TD[1].zero_();
    x_TD[2][3] = NAN;
    for (const auto& [type, format] :
         {std::pair(at::kFloat8_e4m3fn, Fp8Format::kE4m3), std::pair(at::kFloat8_e5m2, Fp8Format::kE5m2)}) {
      const Fp8Rows expected = quantize_rows_to_fp8(x_TD, type, with_columns ? columns_D : at::Tensor());
      const at::Tensor codes_TD = at::empty({5, width}, at::TensorOptions(type)), scales_T = at::empty({5});
      ASSERT_EQ(on_cpu().fp8_rows(rows(x_TD), with_columns ? columns_D.data_ptr<float>() : nullptr, format,
                                  codes_TD.data_ptr(), scales_T.data_ptr<float>(), 5, width, nullptr),
                0);
      const auto numbers = [](const at::Tensor& codes) { return codes.to(at::kFloat); };
      EXPECT_TRUE(numbers(codes_TD)[2].isnan().any().item<bool>());
      for (const int64_t row : {0, 1, 3, 4}) {
        EXPECT_EQ(scales_T[row].item<float>(), expected.scales_T1[row].item<float>());
        EXPECT_TRUE(numbers(codes_TD)[row].equal(numbers(expected.codes_TD)[row]))
            << width << " " << type << " " << row;
      }
    }
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
// columns of groups are whole ones.
TEST_P(CudaKernelsOf, dequantize_has_the_bits_of_the_CPU) {
  using enum quant::Scheme;
  for (const quant::Scheme scheme :
       {kInt8, kFp8, kFp8Block128, kNf4, kNf4DoubleQuant, kInt4Group128, kInt4Group16, kMxfp4}) {
    for (const auto& [rows, columns] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 128}, {7, 51}, {5, 96}, {130, 640}, {65, 33}}) {
      const int64_t width = quant::has_blocks_of_rows(scheme) ? round_up(columns, quant::block_of(scheme)) : columns;
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
  for (const quant::Scheme scheme : {quant::Scheme::kInt8, quant::Scheme::kFp8, quant::Scheme::kFp8Block128,
                                     quant::Scheme::kNf4, quant::Scheme::kInt4Group128, quant::Scheme::kMxfp4}) {
    const int64_t columns = quant::is_in_4_bits(scheme) ? 512 : 256;
    QuantizedMatrix matrix = empty_quantized_matrix(scheme, 1, columns, at::kCPU, tables_on_cpu(scheme));
    matrix.codes.view(at::kByte).view({-1}).copy_(bytes);
    quant::has_byte_scales(scheme) ? matrix.scales.fill_(123) : matrix.scales.fill_(0.37);
    const at::Tensor out_ND = draw_at({1, columns}, true);
    ASSERT_EQ(on_cpu().dequantize(coded(matrix), ops::rows(out_ND), nullptr), 0);
    EXPECT_TRUE(at::allclose(out_ND, dequantize(matrix, GetParam()), 0, 0, /*equal_nan=*/true))
        << quant::name_of(scheme);
  }
}

// Every code is what its number is rounded to, and what lies between two neighbours goes to the nearer, or to the even.
TEST(CudaKernels, round_to_FP8_as_it_is_defined) {
  const auto check = [](auto format, at::ScalarType type, int finite) {
    using Format = decltype(format);
    const at::Tensor numbers = at::arange(finite, at::kByte).view(type).to(at::kFloat);
    const auto* number = numbers.data_ptr<float>();
    for (int code = 0; code < finite; ++code) {
      EXPECT_EQ(cuda::fp8_code<Format>(number[code]), code);
      EXPECT_EQ(cuda::fp8_code<Format>(-number[code]), code | 0x80);
      if (code + 1 == finite) continue;
      const float between = (number[code] + number[code + 1]) / 2;
      EXPECT_EQ(cuda::fp8_code<Format>(between), code + code % 2);
      EXPECT_EQ(cuda::fp8_code<Format>(std::nextafter(between, 0.0f)), code);
      EXPECT_EQ(cuda::fp8_code<Format>(std::nextafter(between, INFINITY)), code + 1);
    }
    EXPECT_EQ(cuda::fp8_code<Format>(INFINITY), finite - 1);
    EXPECT_EQ(cuda::fp8_code<Format>(1e-30f), 0);
    EXPECT_EQ(cuda::fp8_code<Format>(NAN), 0x7f);
  };
  check(cuda::E4m3(), at::kFloat8_e4m3fn, 0x7f);
  check(cuda::E5m2(), at::kFloat8_e5m2, 0x7c);
}

TEST(CudaKernels, turn_bytes) {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{16, 16}, {64, 128}, {80, 176}}) {
    const at::Tensor bytes = at::randint(256, {rows, columns}, at::kByte),
                     turned = at::empty({columns, rows}, at::kByte);
    const at::Tensor ones = at::zeros({columns});
    ASSERT_EQ(on_cpu().turn_bytes(bytes.data_ptr(), turned.data_ptr(), nullptr, rows, columns, nullptr), 0);
    EXPECT_TRUE(turned.equal(bytes.t()));
    turned.zero_();
    ASSERT_EQ(on_cpu().turn_bytes(bytes.data_ptr(), turned.data_ptr(), ones.data_ptr<float>(), rows, columns, nullptr),
              0);
    EXPECT_TRUE(turned.equal(bytes.t()));
    EXPECT_TRUE(ones.equal(at::ones({columns})));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CudaKernelsOf, ::testing::Values(at::kFloat, at::kBFloat16),
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
  EXPECT_EQ(on_cpu().norm({}, {}, {}, nullptr, 0, 8, nullptr), 0);
  EXPECT_EQ(on_cpu().norm_backward({}, {}, {}, nullptr, {}, {}, {}, nullptr, 0, 8, nullptr), 0);
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
}  // namespace fathom::ops::cuda_kernels_test
