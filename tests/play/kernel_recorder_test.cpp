// What a step on the CPU is listed to do, against what is counted of it as a whole.
#include "play/kernel_recorder.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phantom/device.h"
#include "plan/estimate/workload.h"
#include "play/dry_run.h"
#include "tests/train/tiny.h"

namespace fathom::play {
namespace {

using ::testing::Contains;
using ::testing::Field;

TEST(KernelRecorder, TellsPartPhaseAndTypeOfEachOperator) {
  ledger::Ledger ledger;
  KernelRecorder recorder(ledger);
  ledger.begin_phase(memory::Phase::kForward);
  const at::Tensor a = at::ones({4, 8}, at::kBFloat16), b = at::ones({8, 2}, at::kBFloat16);
  {
    const ArithmeticCount count(at::kCPU, &recorder);
    for (const char* part : {"model.layers.0.mlp.up_proj", "model.layers.11.mlp.up_proj", "model.norm"}) {
      ledger.enter(part);
      at::mm(a, b);
    }
    a.view({8, 4});  // which is no work
  }
  const std::vector<plan::KernelRow> rows = recorder.rows();
  ASSERT_EQ(rows.size(), 2);
  const plan::KernelRow& of_layers = rows.front();
  EXPECT_EQ(of_layers.phase, memory::Phase::kForward);
  EXPECT_EQ(of_layers.part, "model.layers.*.mlp.up_proj");
  EXPECT_EQ(of_layers.op, "aten::mm");
  EXPECT_EQ(of_layers.type, DType::kBF16);
  EXPECT_EQ(of_layers.calls, 2);
  EXPECT_EQ(of_layers.launches, 0);  // without a phantom GPU
  EXPECT_EQ(of_layers.matrix_flops, 2 * 2 * 4 * 8 * 2);
  EXPECT_EQ(of_layers.bytes, 2 * 2 * (4 * 8 + 8 * 2 + 4 * 2));
  EXPECT_EQ(rows.back().part, "model.norm");
}

TEST(ListKernels, AddsUpToWhatTheDryRunCounts) {
  const config::RunConfig config = train::testing::tiny_config();
  const arch::Architecture architecture = train::testing::tiny_architecture();
  schedule::BatchShape batch{3, 10};
  batch.targets = 30;
  const plan::Workload workload =
      plan::make_workload(arch::resolve(config, architecture), schedule::imagined_schedule({{batch}}, {}));
  ledger::Ledger ledger;
  const at::Device device = phantom::device();
  plan::KernelList list;
  {
    const phantom::LedgerScope scope(ledger);
    list = list_kernels(arch::resolve(config, architecture), nullptr, workload, {device, &ledger, nullptr, nullptr});
  }
  plan::StepArithmetic sum;
  for (const plan::KernelRow& row : list.rows) {
    plan::Arithmetic& part = sum.of(row.phase);
    part.matrix_flops += row.matrix_flops;
    part.attention_flops += row.attention_flops;
    if (row.matrix_flops + row.attention_flops == 0) part.bytes_moved += row.bytes;
  }
  EXPECT_EQ(sum, dry_run_cpu(arch::resolve(config, architecture), nullptr, workload).arithmetic);
  EXPECT_GT(list.host_seconds, 0);
  EXPECT_THAT(list.rows, Contains(Field(&plan::KernelRow::part, "model.layers.*.mlp.up_proj")));
  EXPECT_THAT(list.rows, Contains(Field(&plan::KernelRow::phase, memory::Phase::kOptimizerStep)));
}

}  // namespace
}  // namespace fathom::play
