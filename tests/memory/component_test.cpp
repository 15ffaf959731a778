// Names, sums, and merging the memory of two stretches.
#include "memory/component.h"

#include <gtest/gtest.h>

namespace fathom::memory {
namespace {

TEST(Component, NamesAreThoseOfTheReports) {
  std::string names;
  for (Component c : kComponents) names += std::string(component_name(c)) + " ";
  EXPECT_EQ(names, "weights optimizer_states gradients functionality activations temporary_buffers kernels ");
  names.clear();
  for (Phase p : kPhases) names += std::string(phase_name(p)) + " ";
  EXPECT_EQ(names, "load forward backward optimizer_step evaluation save ");
}

TEST(Memory, MergeKeepsTheLargestAndOfEqualPeaksOfAPhaseTheOneThatLeavesMost) {
  Memory first, second;
  first.peak = 10;
  first.at_peak[Component::kWeights] = 10;
  first.maximum[Component::kWeights] = 10;
  first.kernel_scratch = 3;
  second.peak = 10;
  second.at_peak[Component::kGradients] = 10;
  second.maximum[Component::kGradients] = 10;
  second.kernel_scratch = 2;
  auto& early = first.phases[static_cast<int>(Phase::kForward)];
  auto& late = second.phases[static_cast<int>(Phase::kForward)];
  early = {.seen = true, .peak = 5, .at_peak = {}, .end = {}};
  early.end[Component::kWeights] = 1;
  late = {.seen = true, .peak = 7, .at_peak = {}, .end = {}};
  late.end[Component::kWeights] = 2;

  Memory merged = first;
  merged.merge(second);
  EXPECT_EQ(merged.at_peak[Component::kWeights], 10);
  EXPECT_EQ(merged.at_peak[Component::kGradients], 0);
  EXPECT_EQ(merged.maximum.total(), 20);
  EXPECT_EQ(merged.kernel_scratch, 3);
  EXPECT_EQ(merged.phase(Phase::kForward).peak, 7);
  EXPECT_EQ(merged.phase(Phase::kForward).end[Component::kWeights], 2) << "`end` belongs to the occurrence of the peak";
  EXPECT_FALSE(merged.phase(Phase::kSave).seen);

  late.peak = 5;  // equal to the earlier one, of which less stays
  merged = first;
  merged.merge(second);
  EXPECT_EQ(merged.phase(Phase::kForward).end[Component::kWeights], 2);
  merged = second;
  merged.merge(first);
  EXPECT_EQ(merged.phase(Phase::kForward).end[Component::kWeights], 2) << "whichever came first";

  late.end = {};  // equal in both: the first stays
  late.end[Component::kGradients] = 1;
  merged = first;
  merged.merge(second);
  EXPECT_EQ(merged.phase(Phase::kForward).end[Component::kWeights], 1);
  EXPECT_EQ(merged.phase(Phase::kForward).end[Component::kGradients], 0);

  late.peak = 4;  // a lower peak, whatever it leaves
  late.end[Component::kGradients] = 4;
  merged = first;
  merged.merge(second);
  EXPECT_EQ(merged.phase(Phase::kForward).peak, 5);
  EXPECT_EQ(merged.phase(Phase::kForward).end[Component::kGradients], 0);
}

}  // namespace
}  // namespace fathom::memory
