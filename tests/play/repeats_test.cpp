// What a dry run leaves out of a step, on a ledger that is told of the requests.
#include "play/repeats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phantom/device.h"
#include "play/dry_run.h"
#include "tests/train/tiny.h"

namespace fathom::play {
namespace {

class RepeatsTest : public ::testing::Test {
 protected:
  // Work that takes `bytes`, and gives them back or keeps them.
  void repeat(uint64_t kind, int64_t bytes, bool keeps = false) {
    ledger_.repeat(kind, [&] {
      const auto* key = &keys_[static_cast<size_t>(done_)];
      done_ += 1;
      ledger_.on_allocate(key, bytes);
      if (!keeps) ledger_.on_free(key);
    });
  }

  std::array<char, 16> keys_{};
  int done_ = 0;
  ledger::Ledger ledger_;
  train::Placement placement_{phantom::device(), &ledger_, nullptr};
};

TEST_F(RepeatsTest, LeavesOutWhatLeftTheStateAsItWas) {
  const Repeats repeats(placement_);
  for (int i = 0; i < 5; ++i) repeat(1, 100);
  EXPECT_EQ(done_, 1);
  repeat(2, 300);
  EXPECT_EQ(done_, 2) << "other requests";
  repeat(3, 8, /*keeps=*/true);
  repeat(3, 8, /*keeps=*/true);
  EXPECT_EQ(done_, 4) << "each leaves another state";
  repeat(1, 100);
  EXPECT_EQ(done_, 5) << "the state is another";
  repeat(1, 100);
  EXPECT_EQ(done_, 5);
}

TEST_F(RepeatsTest, WithoutItAllIsDone) {
  { const Repeats repeats(placement_); }
  for (int i = 0; i < 5; ++i) repeat(1, 100);
  EXPECT_EQ(done_, 5);
}

TEST_F(RepeatsTest, CountsWhatIsLeftOut) {
  const ArithmeticCount count(c10::DeviceType::CPU);
  const Repeats repeats(placement_, &count);
  const at::Tensor a = at::ones({3, 5}), b = at::ones({5, 7});
  constexpr int64_t kFlops = 2 * 3 * 5 * 7;
  for (int i = 0; i < 4; ++i) ledger_.repeat(9, [&] { at::mm(a, b); });
  EXPECT_EQ(count.sum().matrix_flops, kFlops);
  EXPECT_EQ(repeats.left_out().matrix_flops, 3 * kFlops);
}

// Six micro-batches of two shapes: bytes are those of a run of all of them, and so is the arithmetic of the longest
// step.
TEST(DryRun, TellsTheSameWhateverItLeavesOut) {
  config::RunConfig config = train::testing::tiny_config();
  config.gradient_accumulation_steps = 6;
  const schedule::BatchShape large = schedule::whole_batch(3, 20), small = schedule::whole_batch(2, 9);
  const schedule::StepShape step = {large, small, large, large, small, small};
  for (const config::Method method : {config::Method::kFull, config::Method::kLora}) {
    config.method = method;
    const arch::Architecture architecture = train::testing::tiny_architecture();
    const plan::Workload workload = plan::make_workload(config, architecture, schedule::imagined_schedule({step}, {}));
    const auto play = [&](plan::Detail detail) { return dry_run_cpu(config, architecture, nullptr, workload, detail); };
    const DryRun all = play(plan::Detail::kTimeline), some = play(plan::Detail::kArithmetic);
    EXPECT_EQ(some.memory, all.memory);
    EXPECT_EQ(some.arithmetic, all.arithmetic);
    EXPECT_EQ(play(plan::Detail::kBytes).memory, all.memory);

    ledger::Ledger ledger;
    const phantom::LedgerScope scope(ledger);
    train::Trainer trainer(config, architecture, workload.capacity_tokens, {phantom::device(), &ledger, nullptr});
    trainer.model().initialise(1);
    trainer.loaded();
    std::vector<data::Batch> batches;
    for (const schedule::BatchShape& shape : plan::longest_step(architecture, config, workload.steps)) {
      data::Batch batch;
      batch.rows = shape.rows;
      batch.length = shape.length;
      batch.target_count = shape.targets;
      batches.push_back(batch);
    }
    trainer.step(batches, 1e-3);
    const ArithmeticCount count(phantom::device().type());
    trainer.step(batches, 1e-3);
    EXPECT_EQ(batches.size(), 6U);
    EXPECT_EQ(count.sum(), all.arithmetic);
  }
}

}  // namespace
}  // namespace fathom::play
