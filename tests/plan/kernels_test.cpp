// The list of a step's kernels, between processes and against a data sheet.
#include "plan/time/kernels.h"

#include <gtest/gtest.h>

#include "base/json_value.h"

namespace fathom::plan::kernels_test {
namespace {

KernelRow product_of(DType type) {
  KernelRow row;
  row.phase = memory::Phase::kBackward;
  row.part = "model.layers.*.mlp.up_proj";
  row.op = "aten::mm";
  row.type = type;
  row.calls = 32;
  row.launches = 33;
  row.matrix_flops = 6'000'000;
  row.bytes = 4'000;
  return row;
}

config::GpuSpec gpu() {
  config::GpuSpec gpu;
  gpu.memory_bytes_per_second = 1e6;
  gpu.bf16_flops = 1e9;
  gpu.tf32_flops = 5e8;
  gpu.fp32_flops = 1e8;
  return gpu;
}

TEST(KernelList, IsTheSameBehindJson) {
  KernelList list;
  list.rows = {product_of(DType::kBF16), product_of(DType::kF8E4M3)};
  list.launches = list.host_launches = 70;
  list.host_seconds = 0.25;
  const KernelList read = kernels_from_json(to_json(list));
  EXPECT_EQ(read.rows, list.rows);
  EXPECT_EQ(read.launches, 70);
  EXPECT_EQ(read.host_launches, 70);
  EXPECT_EQ(read.host_seconds, 0.25);
}

TEST(LeastSeconds, AreOfWhatTakesLonger) {
  EXPECT_DOUBLE_EQ(*least_seconds(product_of(DType::kBF16), gpu(), false), 6e-3);
  EXPECT_DOUBLE_EQ(*least_seconds(product_of(DType::kF32), gpu(), true), 12e-3);
  EXPECT_DOUBLE_EQ(*least_seconds(product_of(DType::kF32), gpu(), false), 60e-3);
  KernelRow copy = product_of(DType::kBF16);
  copy.matrix_flops = 0;
  EXPECT_DOUBLE_EQ(*least_seconds(copy, gpu(), false), 4e-3);
}

TEST(LeastSeconds, AreNotGuessedWhereASpeedIsNotListed) {
  EXPECT_EQ(least_seconds(product_of(DType::kF8E4M3), gpu(), false), std::nullopt);
  config::GpuSpec unlisted = gpu();
  unlisted.memory_bytes_per_second = 0;
  EXPECT_EQ(least_seconds(product_of(DType::kBF16), unlisted, false), std::nullopt);
}

}  // namespace
}  // namespace fathom::plan::kernels_test
