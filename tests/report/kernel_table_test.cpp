// The list of a step's kernels as the terminal shows it.
#include "report/kernel_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_value.h"
#include "report/table.h"

namespace fathom::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

plan::KernelRow row(memory::Phase phase, const char* part, const char* op, int64_t launches, int64_t bytes,
                    int64_t flops) {
  plan::KernelRow row;
  row.phase = phase;
  row.part = part;
  row.op = op;
  row.type = DType::kBF16;
  row.calls = row.launches = launches;
  row.bytes = bytes;
  row.matrix_flops = flops;
  return row;
}

plan::KernelList example_list() {
  plan::KernelList list;
  list.rows = {
      row(memory::Phase::kForward, "model.layers.*.mlp.up_proj", "aten::mm", 16, 2'000'000'000, 4'000'000'000'000),
      row(memory::Phase::kForward, "model.layers.*.input_layernorm", "aten::_fused_rms_norm", 16, 1'000'000'000, 0),
      row(memory::Phase::kBackward, "model.layers.*.mlp.up_proj", "aten::mm", 32, 4'000'000'000, 8'000'000'000'000),
      row(memory::Phase::kOptimizerStep, "", "aten::_fused_adamw_", 4, 20'000'000'000, 0),
      row(memory::Phase::kOptimizerStep, "", "aten::reciprocal", 0, 8, 0),
  };
  list.launches = list.host_launches = 70;
  list.host_seconds = 0.0076;
  return list;
}

config::GpuSpec gpu() {
  config::GpuSpec gpu;
  gpu.memory_bytes_per_second = 2e12;
  gpu.bf16_flops = 1e15;
  return gpu;
}

TEST(FormatKernels, AddsUpPartsPhasesAndOperators) {
  const std::string text = format_kernels(example_list(), gpu(), false);
  EXPECT_THAT(text, HasSubstr("\nforward                           32  3.00 GB  4.00 TFLOP   4.50 ms\n"
                              "  layers.*.mlp.up_proj            16  2.00 GB  4.00 TFLOP   4.00 ms\n"
                              "  layers.*.input_layernorm        16  1.00 GB                500 µs\n"));
  EXPECT_THAT(text, HasSubstr("\n  all parameters                   4  20.0 GB               10.0 ms\n"));
  EXPECT_THAT(text, HasSubstr("\nstep                              70  27.0 GB  12.0 TFLOP   22.5 ms\n"));
  EXPECT_THAT(text, HasSubstr("\naten::mm, bfloat16           48  6.00 GB  12.0 TFLOP   12.0 ms\n"));
  EXPECT_THAT(text, AllOf(HasSubstr("\n1 operator more "), Not(HasSubstr("reciprocal")), HasSubstr("in 7.60 ms")));
}

TEST(FormatKernels, SaysWhatTheHostLaunchesOfRecordedOnes) {
  plan::KernelList list = example_list();
  EXPECT_THAT(format_kernels(list, gpu(), false), Not(HasSubstr("recorded")));
  list.host_launches = 12;
  EXPECT_THAT(format_kernels(list, gpu(), false), HasSubstr("the host launches 12 times a step"));
}

TEST(FormatKernels, OfACpuHasNoLaunchesAndNoTimes) {
  const std::string text = format_kernels(example_list(), std::nullopt, false);
  EXPECT_THAT(text,
              AllOf(HasSubstr("  27.0 GB  12.0 TFLOP\n\n"), Not(HasSubstr("launches")), Not(HasSubstr("at least"))));
}

TEST(KernelsJson, HasEveryRow) {
  const Json json = kernels_json(example_list(), gpu(), false);
  ASSERT_EQ(json.at("rows").size(), 5);
  EXPECT_EQ(json.at("launches"), 70);
  EXPECT_DOUBLE_EQ(json.at("rows")[0].at("least_seconds").get<double>(), 4e-3);
  EXPECT_EQ(kernels_json(example_list(), std::nullopt, false).at("rows")[0].at("least_seconds"), nullptr);
}

}  // namespace
}  // namespace fathom::report
