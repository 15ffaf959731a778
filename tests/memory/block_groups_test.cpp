#include "memory/block_groups.h"

#include <gtest/gtest.h>

namespace fathom::memory {
namespace {

TEST(BlockGroups, LeaveOutTheNumberOfTheLayer) {
  EXPECT_EQ(of_any_layer("model.layers.12.mlp.up_proj, aten::mm"), "model.layers.*.mlp.up_proj, aten::mm");
  EXPECT_EQ(of_any_layer("exp_avg.model.layers.0.mlp"), "exp_avg.model.layers.*.mlp");
  EXPECT_EQ(of_any_layer("model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(of_any_layer(""), "");
}

TEST(BlockGroups, DescribeABlockByItsNameElseByWhereItWasTaken) {
  EXPECT_EQ(describe_block("lm_head.weight", "lm_head", "aten::mm"), "lm_head.weight");
  EXPECT_EQ(describe_block("", "lm_head", "aten::mm"), "lm_head, aten::mm");
  EXPECT_EQ(describe_block("", "", "aten::mm"), "aten::mm");
  EXPECT_EQ(describe_block("", "lm_head", ""), "lm_head");
}

TEST(BlockGroups, KeepComponentsAndSizesApart) {
  BlockGroups groups;
  groups.add("model.layers.0.mlp", Component::kActivations, 100);
  groups.add("model.layers.1.mlp", Component::kActivations, 100);
  groups.add("model.layers.2.mlp", Component::kActivations, 60);
  groups.add("model.layers.3.mlp", Component::kTemporaryBuffers, 500);
  ASSERT_EQ(groups.in_order().size(), 3u);
  EXPECT_EQ(groups.in_order()[0].bytes(), 200);
  EXPECT_EQ(groups.largest_first()[0].component, Component::kTemporaryBuffers);
}

TEST(BlockGroups, OfThePeakAddUpToIt) {
  Timeline timeline;
  timeline.names = {"", "model.layers.0.mlp", "model.layers.1.mlp"};
  timeline.events = 4;
  timeline.blocks = {{.bytes = 100, .taken = 0, .module = 1},
                     {.bytes = 100, .taken = 1, .module = 2},
                     {.bytes = 7, .taken = 1, .kernel_scratch = true},
                     {.bytes = 50, .taken = 3, .given_back = 4}};
  timeline.peak = 200;
  timeline.peak_position = 2;
  const BlockGroups groups = groups_at_peak(timeline);
  ASSERT_EQ(groups.in_order().size(), 1u);
  EXPECT_EQ(groups.in_order()[0].what, "model.layers.*.mlp");
  EXPECT_EQ(groups.in_order()[0].bytes(), timeline.peak);
}

}  // namespace
}  // namespace fathom::memory
