// What a dry run leaves out of a step, on a ledger that is told of the requests.
#include "play/repeats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ledger/operator_repeats.h"
#include "phantom/device.h"
#include "play/dry_run.h"
#include "tests/ledger/idle_gpu.h"
#include "tests/train/tiny.h"

namespace fathom::play::repeats_test {
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
  EXPECT_EQ(repeats.left_out().whole().matrix_flops, 3 * kFlops);
}

// A GPU of which only the layout of memory is asked.
class Gpu final : public fathom::testing::IdleGpu {
 public:
  using IdleGpu::IdleGpu;
  uint64_t layout() const override {
    ++looks;
    return static_cast<uint64_t>(ledger_.live_bytes());
  }
  mutable int looks = 0;
};

class OperatorRepeatsTest : public RepeatsTest {
 protected:
  void repeat_quietly(uint64_t kind) {
    ledger::repeat_in_operator(kind, [&] { done_ += 1; });
  }
  void repeat_asking(uint64_t kind) {
    ledger::repeat_in_operator(kind, [&] {
      done_ += 1;
      ledger_.on_allocate(keys_.data(), 100);
      ledger_.on_free(keys_.data());
    });
  }
  Gpu gpu_{ledger_};
  train::Placement on_gpu_{phantom::device(), &ledger_, &gpu_};
};

TEST_F(OperatorRepeatsTest, LeaveOutWhatAsksForNothingWithoutALook) {
  const Repeats repeats(on_gpu_, nullptr, Repeats::LeavesOut::kQuiet);
  for (int i = 0; i < 5; ++i) repeat_quietly(1);
  EXPECT_EQ(done_, 1);
  ledger_.on_allocate(&keys_[1], 10);
  for (int i = 0; i < 5; ++i) repeat_quietly(1);
  EXPECT_EQ(done_, 2) << "after a change of the memory";
  EXPECT_EQ(gpu_.looks, 0);
  for (int i = 0; i < 5; ++i) repeat_asking(2);
  EXPECT_EQ(done_, 7) << "a timeline has it";
}

TEST_F(OperatorRepeatsTest, LeaveOutWhatChangesNoState) {
  const Repeats repeats(on_gpu_);
  for (int i = 0; i < 5; ++i) repeat_asking(2);
  EXPECT_EQ(done_, 2);
  for (int i = 0; i < 5; ++i) repeat(3, 100);
  EXPECT_EQ(done_, 3);
}

TEST_F(OperatorRepeatsTest, AreCountedWithTheWorkThatTheyAreIn) {
  const ArithmeticCount count(c10::DeviceType::CPU);
  const Repeats repeats(on_gpu_, &count);
  const at::Tensor a = at::ones({3, 5}), b = at::ones({5, 7});
  constexpr int64_t kFlops = 2 * 3 * 5 * 7;
  for (int i = 0; i < 2; ++i) {
    ledger_.repeat(9, [&] {
      for (int part = 0; part < 4; ++part) ledger::repeat_in_operator(8, [&] { at::mm(a, b); });
    });
  }
  EXPECT_EQ(count.sum().matrix_flops, kFlops);
  EXPECT_EQ(repeats.left_out().whole().matrix_flops, 7 * kFlops);
}

TEST_F(OperatorRepeatsTest, WithoutADryRunAllIsDone) {
  { const Repeats repeats(on_gpu_); }
  for (int i = 0; i < 5; ++i) repeat_quietly(1);
  EXPECT_EQ(done_, 5);
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
    const plan::Workload workload =
        plan::make_workload(arch::resolve(config, architecture), schedule::imagined_schedule({step}, {}));
    const auto play = [&](plan::Detail detail) {
      return dry_run_cpu(arch::resolve(config, architecture), nullptr, workload, detail);
    };
    const DryRun all = play(plan::Detail::kTimeline), some = play(plan::Detail::kArithmetic);
    EXPECT_EQ(some.memory, all.memory);
    EXPECT_EQ(some.arithmetic, all.arithmetic);
    EXPECT_EQ(play(plan::Detail::kBytes).memory, all.memory);

    ledger::Ledger ledger;
    const phantom::LedgerScope scope(ledger);
    train::Trainer trainer(arch::resolve(config, architecture), workload.capacity_tokens,
                           {phantom::device(), &ledger, nullptr});
    trainer.model().initialise(1);
    trainer.loaded();
    std::vector<data::Batch> batches;
    for (const schedule::BatchShape& shape : plan::longest_step(arch::resolve(config, architecture), workload.steps)) {
      data::Batch batch;
      batch.rows = shape.rows;
      batch.length = shape.length;
      batch.target_count = shape.targets;
      batches.push_back(batch);
    }
    trainer.step(batches, 1e-3);
    const ArithmeticCount count(phantom::device().type(), nullptr, nullptr, &ledger);
    trainer.step(batches, 1e-3);
    EXPECT_EQ(batches.size(), 6U);
    EXPECT_EQ(count.parts(), all.arithmetic);
  }
}

}  // namespace
}  // namespace fathom::play::repeats_test
