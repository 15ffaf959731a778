// The memory report as golden text: plan alone, with a measurement, on a GPU; and the sentence on how the two agree.
#include "report/memory_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "report/derivation.h"
#include "report/table.h"
#include "tests/report/example.h"

namespace fathom::report {
namespace {

using memory::Component;
using memory::Phase;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(FormatMemory, ShowsAPlanAlone) {
  EXPECT_EQ(format_memory({example_plan(), {}}), R"(Memory on the CPU (2 threads), flash attention
1,024 parameters, all trained; batches of up to 2 × 8 tokens, several to a step
Dry run: 3 steps in 250 ms

at the peak        analytic  dry run             analytic off by
────────────────────────────────────────────────────────────────
weights               4,096    4,096   4.00 KiB                0
optimizer_states      8,200    8,200   8.01 KiB                0
gradients                 0        0        0 B                0
functionality           512      512      512 B                0
activations           2,000    2,048   2.00 KiB          -2.34 %
temporary_buffers     1,024    1,024   1.00 KiB                0
kernels                   0        0        0 B                0
────────────────────────────────────────────────────────────────
total                15,832   15,880  15.51 KiB          -0.30 %

phase     peak, dry run             at its end
──────────────────────────────────────────────
load              4,096   4.00 KiB       4,096
backward         15,880  15.51 KiB       8,192

Fits: 15.51 KiB of tensors, and at most 256.02 MiB with all that the process
  takes besides, of the 16.00 GiB that are free here.
)");
}

TEST(FormatMemory, SetsMeasuredBesidePredicted) {
  EXPECT_EQ(format_memory({example_plan(), example_measured()}),
            R"(Memory on the CPU (2 threads), flash attention
1,024 parameters, all trained; batches of up to 2 × 8 tokens, several to a step
Dry run: 3 steps in 250 ms

at the peak        analytic  dry run             measured  off by
─────────────────────────────────────────────────────────────────
weights               4,096    4,096   4.00 KiB     4,096       0
optimizer_states      8,200    8,200   8.01 KiB     8,200       0
gradients                 0        0        0 B         0       0
functionality           512      512      512 B       512       0
activations           2,000    2,048   2.00 KiB     2,048       0
temporary_buffers     1,024    1,024   1.00 KiB     1,024       0
kernels                   0        0        0 B         0       0
─────────────────────────────────────────────────────────────────
total                15,832   15,880  15.51 KiB    15,880       0

phase     peak, dry run             measured  off by  at its end  off by
────────────────────────────────────────────────────────────────────────
load              4,096   4.00 KiB     4,096       0       4,096       0
backward         15,880  15.51 KiB    15,880       0       8,192       0

Kernel scratch (what operators take and give back within one call; not in the
  figures above): 640 B measured, at most 704 B predicted
Resident memory grew by 39.06 KiB, at most 256.02 MiB predicted: 23.55 KiB
  beside the tensors (code, scratch, freed memory kept)
Dry run and measured are equal to the byte: the peak, every component at it and
  at its own maximum, and the phases load, backward.
)");
}

TEST(FormatMemory, ShowsTheCachingAllocatorOfAGpu) {
  const std::string text = format_memory({example_gpu_plan(), {}});
  EXPECT_THAT(text, HasSubstr("Memory on GPU H100 (80.00 GiB), flash attention\n"));
  EXPECT_THAT(text, HasSubstr(R"(GPU allocator, peak    dry run
─────────────────────────────────────────
requested               15,880  15.51 KiB
allocated               18,432  18.00 KiB
reserved             2,097,152   2.00 MiB
Over 6 placements of the allocator's segments: allocated 17,920 … 18,432,
  reserved 2,097,152 … 4,194,304

Fits: at most 4.00 MiB reserved and the driver's own share (not calibrated:
  context, loaded kernels) of 80.00 GiB.
)"));
  plan::Plan point = example_gpu_plan();
  point.gpu->allocated_range = {18432, 18432};
  point.gpu->reserved_range = {2097152, 2097152};
  EXPECT_THAT(format_memory({point, {}}), Not(HasSubstr("placements"))) << "a point is no range";
}

TEST(FormatMemory, FitsATerminalWhateverItsFigures) {
  plan::Plan plan = example_gpu_plan();
  plan::Measured measured = example_measured();
  measured.device_growth = measured.reserved = measured.allocated = int64_t{288} << 30;
  for (memory::Memory* memory : {&plan.dry_run, &measured.memory}) {
    for (const Component component : memory::kComponents) memory->at_peak[component] = int64_t{35} << 30;
    memory->peak = memory->at_peak.total();
    for (auto& phase : memory->phases) {
      phase.seen = true;
      phase.peak = memory->peak;
      phase.end = memory->at_peak;
    }
  }
  plan.gpu->reserved_range.highest = int64_t{288} << 30;
  for (const std::string& text : {format_memory({plan, {}}), format_memory({plan, measured}), format_plan(plan),
                                  format_rules({plan, {}}, true)}) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), kTerminalColumns) << line;
  }
}

TEST(FormatPlan, IsShort) {
  EXPECT_EQ(format_plan(example_plan()), R"(Memory on the CPU (2 threads), flash attention
1,024 parameters, all trained; batches of up to 2 × 8 tokens, several to a step
Dry run: 3 steps in 250 ms
Predicted peak: 15.51 KiB, of which optimizer_states 8.01 KiB, weights 4.00 KiB,
  activations 2.00 KiB, temporary_buffers 1.00 KiB
Fits: 15.51 KiB of tensors, and at most 256.02 MiB with all that the process
  takes besides, of the 16.00 GiB that are free here.
)");
}

TEST(FormatMemory, ClaimsNoProofNearTheLimit) {
  plan::Plan plan = example_gpu_plan();
  plan.gpu->overhead = int64_t{1} << 30;
  EXPECT_THAT(format_memory({plan, {}}),
              HasSubstr("Fits: at most 4.00 MiB reserved and 1.00 GiB for the driver (calibrated) of\n  80.00 GiB.\n"));
  plan.target.capacity_bytes = int64_t{1} << 30;
  EXPECT_THAT(format_memory({plan, {}}), HasSubstr("Near the limit, not proved to fit: at most 4.00 MiB reserved"));
  plan.gpu->overhead.reset();
  plan.target.capacity_bytes = int64_t{2} << 30;
  EXPECT_THAT(format_memory({plan, {}}), HasSubstr("Near the limit, not proved to fit: "));
}

TEST(FormatMemory, HoldsAMeasurementAgainstTheRange) {
  plan::Measured measured = example_measured();
  measured.resident_growth.reset();
  measured.allocated = 18000;
  measured.reserved = 5000000;
  measured.device_growth = 6000000;
  const std::string text = format_memory({example_gpu_plan(), measured});
  EXPECT_THAT(text, HasSubstr("18,000       yes\n"));
  EXPECT_THAT(text, HasSubstr("5,000,000        no\n"));
  EXPECT_THAT(text, HasSubstr("The driver reports 5.72 MiB: 976.56 KiB beside the caching allocator, not"));
  EXPECT_THAT(text, Not(HasSubstr("Kernel scratch"))) << "a GPU's kernels take none from the caching allocator";
  EXPECT_THAT(text, Not(HasSubstr("phantom")));
  plan::Plan phantom = example_gpu_plan();
  phantom.target.phantom = true;
  EXPECT_THAT(format_memory({phantom, measured}), HasSubstr("Measured on a phantom GPU"));
}

TEST(FormatMemory, SaysWhatIsMissing) {
  plan::Plan gpu = example_gpu_plan();
  gpu.gpu->fits = false;
  gpu.gpu->missing_bytes = int64_t{12} << 30;
  EXPECT_THAT(
      format_memory({gpu, {}}),
      HasSubstr("Does not fit: H100 has 80.00 GiB, and 12.00 GiB are missing (12,884,901,888\n  bytes). The figures "
                "above are those of a run without limit. `fathom advise`\n  finds what fits.\n"));
  plan::Plan cpu = example_plan();
  cpu.target.capacity_bytes = 8 << 10;
  EXPECT_THAT(format_memory({cpu, {}}), HasSubstr("Does not fit: this machine has 8.00 KiB free, and 7.51 KiB are "
                                                  "missing. `fathom\n  advise` finds what fits.\n"));
  cpu.target.within_budget = true;
  EXPECT_THAT(
      format_memory({cpu, {}}),
      HasSubstr(
          "Does not fit: memory_budget is 8.00 KiB, and 7.51 KiB are missing. `fathom\n  advise` finds what fits.\n"));
  cpu.target.capacity_bytes = 16 << 10;
  cpu.dry_run.peak_with_scratch = 16000;
  EXPECT_THAT(format_memory({cpu, {}}),
              HasSubstr("Fits: 15.62 KiB of tensors and kernel scratch, of memory_budget's 16.00 KiB.\n"));
}

TEST(FormatMemory, MarksAPhaseThatWasNotPlayed) {
  plan::Measured measured = example_measured();
  measured.memory.phases[static_cast<int>(Phase::kSave)].seen = true;
  const std::string text = format_memory({example_plan(), measured});
  EXPECT_THAT(text, HasSubstr("save                  —                    0       —           —       —\n"));
  EXPECT_THAT(text, HasSubstr("the phases load, backward. Not compared: save\n  (measured only).\n"));
}

TEST(DescribeAgreement, ARunThatEndedEarlyHasNotFailedItsPlan) {
  const memory::Memory dry_run = example_memory();
  memory::Memory measured = dry_run;
  EXPECT_THAT(describe_agreement(dry_run, measured, true), HasSubstr("equal to the byte"));
  measured.peak -= 5;
  EXPECT_THAT(describe_agreement(dry_run, measured, true),
              AllOf(HasSubstr("The run ended before the last step of its plan"), HasSubstr("peak -5"),
                    Not(HasSubstr("differ"))));
  measured.peak += 6;
  EXPECT_THAT(describe_agreement(dry_run, measured, true), HasSubstr("Dry run and measured differ"))
      << "more than was planned is no matter of the end";
}

TEST(DescribeAgreement, NamesEveryKindOfDifference) {
  const memory::Memory dry_run = example_memory();
  memory::Memory measured = dry_run;
  measured.kernel_scratch = 99;
  EXPECT_THAT(describe_agreement(dry_run, measured), HasSubstr("equal to the byte")) << "kernel scratch is apart";

  measured.at_peak[Component::kActivations] += 5;
  measured.peak += 5;
  EXPECT_EQ(describe_agreement(dry_run, measured),
            "Dry run and measured differ (measured − dry run, in bytes): peak +5; activations at the peak +5.\n");

  measured = dry_run;
  measured.maximum[Component::kGradients] -= 4;
  EXPECT_THAT(describe_agreement(dry_run, measured), HasSubstr("gradients at its maximum -4."));

  measured = dry_run;
  measured.phases[static_cast<int>(Phase::kBackward)].end[Component::kWeights] += 1;
  EXPECT_THAT(describe_agreement(dry_run, measured), HasSubstr("weights at the end of backward +1."));

  for (const Component component : memory::kComponents) measured.maximum[component] += 1;
  EXPECT_THAT(describe_agreement(dry_run, measured), HasSubstr("; and 3 more.")) << "8 differences, 5 named";
}

}  // namespace
}  // namespace fathom::report
