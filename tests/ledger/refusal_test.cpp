#include "ledger/refusal.h"

#include <gmock/gmock.h>

namespace fathom::ledger {
namespace {

using memory::Component;
using ::testing::HasSubstr;

Ledger::Refusal example() {
  Ledger::Refusal refusal;
  refusal.bytes = 5000;
  refusal.module = "model.layers.3.mlp.up_proj";
  refusal.op = "aten::mm";
  refusal.phase = memory::Phase::kForward;
  refusal.live[Component::kWeights] = 3000;
  refusal.live[Component::kActivations] = 1000;
  refusal.blocks = {{2000, Component::kWeights, "lm_head.weight"},
                    {1000, Component::kWeights, "model.layers.12.mlp.up_proj.weight"},
                    {500, Component::kActivations, "model.layers.0.mlp.up_proj, aten::mm"},
                    {500, Component::kActivations, "model.layers.11.mlp.up_proj, aten::mm"}};
  return refusal;
}

TEST(Refusal, TellsWhereItHappened) {
  EXPECT_EQ(describe_place(example()), "in the forward pass, at model.layers.3.mlp.up_proj, by aten::mm");
  EXPECT_EQ(describe_place({}), "");
}

TEST(Refusal, ShowsComponentsWithTheirShares) {
  const std::string text = format_refusal(example());
  EXPECT_THAT(text, HasSubstr("75.0 %"));
  EXPECT_THAT(text, HasSubstr("4,000"));
}

TEST(Refusal, AddsUpWhatLayersHaveInCommon) {
  const std::string text = format_refusal(example());
  EXPECT_THAT(text, HasSubstr("model.layers.*.mlp.up_proj, aten::mm"));
  EXPECT_THAT(text, HasSubstr("2 × 500 B"));
  EXPECT_THAT(text, HasSubstr("lm_head.weight"));
}

TEST(Refusal, IsSilentWhereNothingWasAlive) { EXPECT_EQ(format_refusal({}), ""); }

}  // namespace
}  // namespace fathom::ledger
