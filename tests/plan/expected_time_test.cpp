// Which of a GPU's speeds a run is reckoned with.
#include "plan/time/expected_time.h"

#include <gtest/gtest.h>

#include "tests/plan/llama_8b.h"

namespace fathom::plan::expected_time_test {
namespace {

config::GpuSpec gpu() {
  config::GpuSpec spec;
  spec.memory_bytes_per_second = 1e12;
  spec.fp32_flops = 60e12;
  spec.tf32_flops = 490e12;
  spec.bf16_flops = 980e12;
  return spec;
}

Throughput of(const config::RunConfig& run) { return *throughput_of(gpu(), arch::resolve(run, testing::llama_8b())); }

TEST(ExpectedTime, IsOfTheTypeInWhichProductsAreComputed) {
  config::RunConfig fp32, bf16, fp16, stored;
  bf16.bf16 = fp16.fp16 = true;
  stored.method = config::Method::kLora;
  stored.dtype = DType::kF16;
  EXPECT_EQ(of(fp32).matrix_flops_per_second, 60e12);
  for (const config::RunConfig& narrow : {bf16, fp16, stored}) {
    EXPECT_EQ(of(narrow).matrix_flops_per_second, 980e12);
    EXPECT_EQ(of(narrow).attention_flops_per_second, 980e12);
  }
}

TEST(ExpectedTime, Tf32IsForProductsOfFp32Alone) {
  config::RunConfig run;
  run.tf32 = true;
  EXPECT_EQ(of(run).matrix_flops_per_second, 490e12);
  EXPECT_EQ(of(run).attention_flops_per_second, 60e12) << "the fused kernel for FP32 multiplies in FP32";
  run.attn_implementation = config::Attention::kMath;
  EXPECT_EQ(of(run).attention_flops_per_second, 490e12);
  run.bf16 = true;
  EXPECT_EQ(of(run).matrix_flops_per_second, 980e12);
  config::GpuSpec unknown = gpu();
  unknown.tf32_flops = 0;
  run.bf16 = false;
  EXPECT_EQ(throughput_of(unknown, arch::resolve(run, testing::llama_8b())), std::nullopt);
}

}  // namespace
}  // namespace fathom::plan::expected_time_test
