// Quantized matrices: rows and blocks as lib/quant makes them, the same by ATen's operators, and products with them.
#include "ops/quantized/quantized_matrix.h"

#include <limits>
#include <span>
#include <vector>

#include "base/rounding.h"
#include "ops/linear/linear.h"
#include "ops/quantized/quantized_parts.h"
#include "ops/quantized/quantized_rows.h"
#include "quant/fp8.h"
#include "quant/int4.h"
#include "quant/int8.h"
#include "quant/nf4.h"
#include "quant/scales.h"
#include "tests/ops/compare.h"
#include "tests/ops/quant_tables.h"
#include "tests/ops/threads.h"

namespace fathom::ops::quantized_matrix_test {
namespace {

using quant::Scheme;

struct Sizes {
  int64_t rows, columns;
};

// Whole blocks, blocks across the ends of rows, a short last block, an odd number of values, more than one part.
constexpr Sizes kSizes[] = {{3, 128}, {5, 96}, {7, 51}, {1, 1}, {130, 9000}, {65, 33}};
constexpr Sizes kSizesOfGroups[] = {{3, 128}, {5, 96}, {1, 32}, {70, 16384}};
constexpr Sizes kSizesOfLargeGroups[] = {{3, 128}, {5, 256}, {70, 16384}};
constexpr Sizes kSizesOfSmallGroups[] = {{3, 48}, {9, 688}, {1, 16}};
constexpr Scheme kSchemes[] = {Scheme::kInt8,        Scheme::kFp8,         Scheme::kNf4,        Scheme::kNf4DoubleQuant,
                               Scheme::kInt4Group32, Scheme::kInt4Group16, Scheme::kFp8Block128};

std::span<const Sizes> sizes_of(Scheme scheme) {
  if (scheme == Scheme::kInt4Group16) return kSizesOfSmallGroups;
  if (scheme == Scheme::kFp8Block128) return kSizesOfLargeGroups;
  return quant::is_int4(scheme) ? std::span<const Sizes>(kSizesOfGroups) : kSizes;
}

// So many columns, or what is a whole group.
int64_t width_of(Scheme scheme, int64_t columns) {
  return quant::has_blocks_of_rows(scheme) ? round_up(columns, quant::block_of(scheme)) : columns;
}

QuantizedMatrix quantized(Scheme scheme, const at::Tensor& values_ND, const QuantTables& tables = {}) {
  QuantizedMatrix matrix = empty_quantized_matrix(scheme, values_ND.size(0), values_ND.size(1), at::kCPU, tables);
  quantize(matrix, [&](int64_t first, const at::Tensor& part_RD) {
    part_RD.copy_(values_ND.narrow(0, first, part_RD.size(0)));
  });
  return matrix;
}

// One row or block after the other.
at::Tensor round_trip(Scheme scheme, const at::Tensor& values_ND) {
  at::Tensor out_ND = at::empty_like(values_ND);
  const auto* in = values_ND.const_data_ptr<float>();
  auto* out = out_ND.mutable_data_ptr<float>();
  const int64_t count = values_ND.numel();
  const int64_t block = quant::block_of(scheme), run = block == 0 ? values_ND.size(1) : block;
  std::vector<std::vector<uint8_t>> codes;
  std::vector<float> scales;
  for (int64_t first = 0; first < count; first += run) {
    const int64_t n = std::min(run, count - first);
    std::vector<uint8_t>& of_run = codes.emplace_back(static_cast<size_t>(n));
    scales.push_back(scheme == Scheme::kInt8
                         ? quant::quantize_int8(in + first, n, reinterpret_cast<int8_t*>(of_run.data()))
                     : quant::is_fp8(scheme) ? quant::quantize_fp8(in + first, n, of_run.data())
                     : quant::is_nf4(scheme) ? quant::quantize_nf4(in + first, n, of_run.data())
                                             : quant::quantize_int4(in + first, n, of_run.data()));
  }
  const auto scale_count = static_cast<int64_t>(scales.size());
  if (scheme == Scheme::kNf4DoubleQuant) {
    const float offset = quant::mean_scale(scales.data(), scale_count);
    for (int64_t first = 0; first < scale_count; first += quant::kScaleBlock) {
      const int64_t n = std::min(quant::kScaleBlock, scale_count - first);
      std::vector<uint8_t> of_block(static_cast<size_t>(n));
      const float outer = quant::quantize_scales(scales.data() + first, offset, n, of_block.data());
      quant::dequantize_scales(of_block.data(), outer, offset, n, scales.data() + first);
    }
  }
  for (size_t i = 0; i < codes.size(); ++i) {
    const int64_t first = static_cast<int64_t>(i) * run, n = std::min(run, count - first);
    if (scheme == Scheme::kInt8) {
      quant::dequantize_int8(reinterpret_cast<const int8_t*>(codes[i].data()), scales[i], n, out + first);
    } else if (quant::is_fp8(scheme)) {
      quant::dequantize_fp8(codes[i].data(), scales[i], n, out + first);
    } else if (quant::is_int4(scheme)) {
      quant::dequantize_int4(codes[i].data(), scales[i], n, out + first);
    } else {
      quant::dequantize_nf4(codes[i].data(), scales[i], n, out + first);
    }
  }
  return out_ND;
}

class Quantized : public ::testing::TestWithParam<Scheme> {};

TEST_P(Quantized, takes_the_bytes_that_its_layout_says) {
  for (const Sizes& sizes : sizes_of(GetParam())) {
    const quant::Layout layout = quant::layout_of(GetParam(), sizes.rows, sizes.columns);
    const QuantizedMatrix matrix = empty_quantized_matrix(GetParam(), sizes.rows, sizes.columns, at::kCPU, {});
    EXPECT_EQ(static_cast<int64_t>(matrix.codes.nbytes()), layout.code_bytes);
    const size_t outer = matrix.outer_scales.defined() ? matrix.outer_scales.nbytes() : 0;
    EXPECT_EQ(static_cast<int64_t>(matrix.scales.nbytes() + outer), layout.scale_bytes);
  }
}

TEST_P(Quantized, is_every_row_or_block_by_itself) {
  at::manual_seed(8);
  for (const Sizes& sizes : sizes_of(GetParam())) {
    const at::Tensor values_ND = at::randn({sizes.rows, sizes.columns});
    const at::Tensor expected_ND = round_trip(GetParam(), values_ND);
    const QuantizedMatrix matrix = quantized(GetParam(), values_ND);
    EXPECT_TRUE(at::equal(dequantize(matrix, at::kFloat), expected_ND)) << sizes.rows << " x " << sizes.columns;
    EXPECT_TRUE(at::equal(dequantize(matrix, at::kBFloat16), expected_ND.to(at::kBFloat16)));
  }
}

TEST_P(Quantized, is_the_same_on_one_thread_and_two) {
  at::manual_seed(8);
  const at::Tensor values_ND = at::randn({300, 1024});
  const auto round_trip_on = [&](int count) {
    const Threads threads(count);
    return dequantize(quantized(GetParam(), values_ND), at::kFloat);
  };
  EXPECT_TRUE(at::equal(round_trip_on(1), round_trip_on(2)));
}

TEST_P(Quantized, is_read_back_alike_by_operators_of_aten) {
  at::manual_seed(8);
  for (const Sizes& sizes : sizes_of(GetParam())) {
    const QuantizedMatrix matrix =
        quantized(GetParam(), at::randn({sizes.rows, sizes.columns}), tables_on_cpu(GetParam()));
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      EXPECT_TRUE(at::equal(dequantize_in_parts(matrix, type), dequantize(matrix, type)))
          << sizes.rows << " x " << sizes.columns << " " << at::toString(type);
    }
  }
}

// But for values between two codes, which may round either way.
TEST_P(Quantized, is_made_alike_by_operators_of_aten) {
  at::manual_seed(8);
  for (const Sizes& sizes : sizes_of(GetParam())) {
    const at::Tensor values_ND = at::randn({sizes.rows, sizes.columns});
    const QuantizedMatrix expected = quantized(GetParam(), values_ND, tables_on_cpu(GetParam()));
    const QuantizedMatrix made =
        empty_quantized_matrix(GetParam(), sizes.rows, sizes.columns, at::kCPU, tables_on_cpu(GetParam()));
    const at::Tensor scales = made.outer_scales.defined() ? at::empty({made.scales.size(0)}) : made.scales;
    for (int64_t first = 0; first < sizes.rows; first += quant::kNf4Block) {
      const int64_t rows = std::min(quant::kNf4Block, sizes.rows - first);
      quantize_part(made, scales, first, values_ND.narrow(0, first, rows).clone());
    }
    if (made.outer_scales.defined()) quantize_all_scales(made, scales);
    const at::Tensor ours_ND = dequantize(made, at::kFloat), theirs_ND = dequantize(expected, at::kFloat);
    EXPECT_LE((ours_ND - theirs_ND).abs().gt(1e-5).sum().item<int64_t>(), 1 + values_ND.numel() / 10000);
  }
}

TEST_P(Quantized, keeps_zeros_and_shows_what_is_not_finite) {
  at::Tensor values_ND = at::zeros({2, width_of(GetParam(), 32)});
  EXPECT_TRUE(at::equal(dequantize(quantized(GetParam(), values_ND), at::kFloat), values_ND));
  values_ND[1][3] = std::numeric_limits<float>::infinity();
  const int64_t alike = GetParam() == Scheme::kInt4Group16 ? 16 : 32;  // values of one scale
  const at::Tensor row_D = dequantize(quantized(GetParam(), values_ND), at::kFloat)[1];
  EXPECT_TRUE(row_D.narrow(0, 0, alike).isnan().all().item<bool>());
}

// A layer on a quantized base is the layer on the base read back, forward and backward, bit for bit.
TEST_P(Quantized, multiplies_as_what_it_stands_for) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    at::manual_seed(8);
    const int64_t width = width_of(GetParam(), 96);
    const QuantizedMatrix matrix = quantized(GetParam(), at::randn({70, width}));
    const at::Tensor a_RD = at::randn({4, width}), b_NR = at::randn({70, 4}), x_TD = draw({13, width}, type);
    std::vector<at::Tensor> results[2];
    for (const bool plain : {false, true}) {
      const std::vector<at::Tensor> in = {x_TD.clone().set_requires_grad(true), a_RD.clone().set_requires_grad(true),
                                          b_NR.clone().set_requires_grad(true)};
      Linear layer;
      layer.adapter = LoraAdapter{in[1], in[2], 0.5, 0};
      if (plain) {
        layer.weight_ND = dequantize(matrix, type);
      } else {
        layer.quantized_ND = matrix;
      }
      const at::Tensor y_TN = linear(LinearInput(in[0]), layer, ComputeScope(at::kCPU, type), true);
      torch::autograd::backward({y_TN.to(at::kFloat).square().sum()}, {});
      results[plain] = {y_TN.detach(), in[0].grad(), in[1].grad(), in[2].grad()};
    }
    for (size_t i = 0; i < results[0].size(); ++i) EXPECT_TRUE(at::equal(results[0][i], results[1][i])) << i;
  }
}

// What quantize_folder measures errors on; blocks of scales end within the rows.
TEST_P(Quantized, is_read_back_by_rows) {
  at::manual_seed(8);
  for (const Sizes& sizes : {Sizes{200, 96}, Sizes{130, 32}}) {
    const QuantizedMatrix matrix = quantized(GetParam(), at::randn({sizes.rows, width_of(GetParam(), sizes.columns)}));
    const at::Tensor whole_ND = dequantize(matrix, at::kFloat);
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 64}, {64, 64}, {128, sizes.rows - 128}}) {
      EXPECT_TRUE(at::equal(dequantize_rows(matrix, first, count), whole_ND.narrow(0, first, count))) << first;
    }
  }
}

std::string scheme_name(const ::testing::TestParamInfo<Scheme>& info) {
  constexpr const char* kNames[] = {"INT8",         "FP8",         "FP8Block128", "NF4",        "NF4DoubleQuant",
                                    "INT4Group128", "INT4Group64", "INT4Group32", "INT4Group16"};
  return kNames[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Schemes, Quantized, ::testing::ValuesIn(kSchemes), scheme_name);

}  // namespace
}  // namespace fathom::ops::quantized_matrix_test
