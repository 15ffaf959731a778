#include "memory/timeline.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json_value.h"
#include "ledger/ledger.h"

namespace fathom::ledger {
namespace {

const void* key_of_tensor(size_t number) { return reinterpret_cast<const void*>(number + 1); }  // NOLINT

// A step with one weight that was there before, an activation, a gradient without a name, and a temporary.
void play_step(Ledger& ledger) {
  ledger.on_allocate(key_of_tensor(0), 1000);
  ledger.label();
  ledger.begin_phase(memory::Phase::kForward);
  ledger.enter("model.layers.0.mlp");
  ledger.on_allocate(key_of_tensor(1), 300, {.op = "aten::mm"});
  ledger.begin_phase(memory::Phase::kBackward);
  ledger.on_allocate(key_of_tensor(2), 50);
  ledger.enter("loss");
  ledger.on_allocate(key_of_tensor(3), 200);
  ledger.on_free(key_of_tensor(1));
  ledger.on_free(key_of_tensor(2));
  ledger.end_phase();
  ledger.label();
}

// Live bytes at a position by adding up blocks, to hold against the timeline's own figures.
int64_t live_at(const memory::Timeline& timeline, int64_t position) {
  int64_t live = 0;
  for (const memory::Timeline::Block& block : timeline.blocks) {
    if (block.taken <= position && position < block.given_back) live += block.bytes;
  }
  return live;
}

TEST(Timeline, TellsWhenEachBlockCameAndWent) {
  Ledger ledger;
  play_step(ledger);
  const memory::Timeline& timeline = ledger.peak_timeline();
  ASSERT_EQ(timeline.blocks.size(), 4u);
  EXPECT_EQ(timeline.events, 5);
  EXPECT_EQ(timeline.blocks[0].taken, 0);
  EXPECT_EQ(timeline.blocks[0].given_back, memory::Timeline::kNever);
  EXPECT_EQ(timeline.blocks[1].taken, 1);
  EXPECT_EQ(timeline.blocks[1].given_back, 4);
  EXPECT_EQ(timeline.blocks[1].component, memory::Component::kActivations);
  EXPECT_EQ(timeline.names[timeline.blocks[1].module], "model.layers.0.mlp");
  EXPECT_EQ(timeline.names[timeline.blocks[1].op], "aten::mm");
  EXPECT_EQ(timeline.names[timeline.blocks[2].module], "") << "a phase begins nowhere";
  EXPECT_EQ(timeline.names[timeline.blocks[3].module], "loss");
  EXPECT_THAT(timeline.phases, ::testing::ElementsAre(memory::Timeline::Span{memory::Phase::kForward, 0, 1},
                                                      memory::Timeline::Span{memory::Phase::kBackward, 1, 5}));
}

TEST(Timeline, ReachesItsPeakWhereItsBlocksAddUpToIt) {
  Ledger ledger;
  play_step(ledger);
  const memory::Timeline& timeline = ledger.peak_timeline();
  EXPECT_EQ(timeline.peak, 1550);
  EXPECT_EQ(timeline.peak, ledger.memory().peak);
  EXPECT_EQ(live_at(timeline, timeline.peak_position), timeline.peak);
  for (int64_t position = 0; position < timeline.peak_position; ++position) {
    EXPECT_LT(live_at(timeline, position), timeline.peak) << "at " << position;
  }
}

TEST(Timeline, IsOfTheStretchWithTheLargestPeakThatHadABackwardPhase) {
  Ledger ledger;
  play_step(ledger);
  ledger.begin_phase(memory::Phase::kEvaluation);
  ledger.on_allocate(key_of_tensor(9), 1 << 20);
  ledger.on_free(key_of_tensor(9));
  ledger.end_phase();
  ledger.label();
  EXPECT_EQ(ledger.peak_timeline().peak, 1550);
  EXPECT_GT(ledger.memory().peak, 1550);
}

// Two steps with the same peak in the backward phase, in whichever order: a dry run may play one of them alone.
TEST(Timeline, IsOfTheStepWithTheLargerForwardPhaseAmongEquals) {
  for (const std::vector<int64_t>& order : {std::vector<int64_t>{100, 300, 200}, {300, 100}, {300}}) {
    Ledger ledger;
    for (const int64_t forward : order) {
      ledger.begin_phase(memory::Phase::kForward);
      ledger.on_allocate(key_of_tensor(1), forward);
      ledger.on_free(key_of_tensor(1));
      ledger.begin_phase(memory::Phase::kBackward);
      ledger.on_allocate(key_of_tensor(2), 500);
      ledger.on_free(key_of_tensor(2));
      ledger.end_phase();
      ledger.label();
    }
    EXPECT_EQ(ledger.peak_timeline().peak, 500);
    EXPECT_EQ(ledger.peak_timeline().blocks.front().bytes, 300);
  }
}

TEST(Timeline, NamesTheLargestBlocksAtItsPeak) {
  Ledger ledger;
  play_step(ledger);
  const std::vector<memory::Timeline::Block> largest = memory::largest_at_peak(ledger.peak_timeline(), 2);
  ASSERT_EQ(largest.size(), 2u);
  EXPECT_EQ(largest[0].bytes, 1000);
  EXPECT_EQ(largest[1].bytes, 300);
}

TEST(Timeline, SurvivesJson) {
  Ledger ledger;
  play_step(ledger);
  EXPECT_EQ(memory::timeline_from_json(memory::to_json(ledger.peak_timeline())), ledger.peak_timeline());
}

TEST(Timeline, RefusesJsonOfAnotherForm) {
  Ledger ledger;
  play_step(ledger);
  const Json sound = memory::to_json(ledger.peak_timeline());
  for (const char* change :
       {R"([{"op":"remove","path":"/names"}])", R"([{"op":"replace","path":"/blocks/0/5","value":99}])",
        R"([{"op":"replace","path":"/blocks/0/3","value":7}])", R"([{"op":"replace","path":"/blocks/1/2","value":0}])",
        R"([{"op":"replace","path":"/blocks/0/0","value":-1}])",
        R"([{"op":"replace","path":"/phases/0/0","value":6}])"}) {
    EXPECT_THROW(memory::timeline_from_json(sound.patch(Json::parse(change))), Error) << change;
  }
}

TEST(Refusal, KeepsWhatWasAliveAndWhereItHappened) {
  Ledger ledger;
  EXPECT_FALSE(ledger.refusal());
  ledger.on_allocate(key_of_tensor(0), 1000);
  ledger.label();
  ledger.begin_phase(memory::Phase::kForward);
  ledger.enter("model.layers.0.mlp");
  ledger.on_allocate(key_of_tensor(1), 300, {.op = "aten::mm"});
  ledger.on_refusal(5000, {.op = "aten::bmm"});
  ledger.on_free(key_of_tensor(1));
  const std::optional<Ledger::Refusal> refusal = ledger.refusal();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->bytes, 5000);
  EXPECT_EQ(refusal->module, "model.layers.0.mlp");
  EXPECT_EQ(refusal->op, "aten::bmm");
  EXPECT_EQ(refusal->phase, memory::Phase::kForward);
  EXPECT_EQ(refusal->live[memory::Component::kActivations], 300) << "the backward pass would have needed it";
  EXPECT_EQ(refusal->live.total(), 1300);
  ASSERT_EQ(refusal->blocks.size(), 2u);
  EXPECT_EQ(refusal->blocks[1].what, "model.layers.0.mlp, aten::mm");
}

}  // namespace
}  // namespace fathom::ledger
