#include "train/loss_sum.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace fathom::train {
namespace {

// FP32 sums in which the order tells: the small numbers are lost beside the large one, unless they come first together.
TEST(LossSum, IsInFp32AndInTheOrderOfMicroBatches) {
  LossSum alone(nullptr);
  for (const double loss : {16777216.0, 1.0, 1.0}) alone.add(at::scalar_tensor(loss));
  EXPECT_EQ(alone.take_total(3), 16777216);
  LossSum small_first(nullptr);
  for (const double loss : {1.0, 1.0, 16777216.0}) small_first.add(at::scalar_tensor(loss));
  EXPECT_EQ(small_first.take_total(3), 16777218);
  EXPECT_EQ(LossSum(nullptr).take_total(0), 0);
}

TEST(LossSum, WeighsEachByItsShare) {
  LossSum sum(nullptr);
  sum.add(at::scalar_tensor(2.0), 0.25);
  sum.add(at::scalar_tensor(4.0), 0.25);
  EXPECT_EQ(sum.take_total(2), 1.5);
}

// A played group has each number as often as there are ranks.
TEST(LossSum, IsOfAllProcesses) {
  const auto group = dist::play(1, 2);
  LossSum sum(group.get());
  sum.add(at::scalar_tensor(2.0));
  EXPECT_EQ(sum.take_total(2), 4);
}

TEST(LossSum, KeepsEachMicroBatchOfSeveralProcesses) {
  const auto group = dist::play(0, 3);
  LossSum sum(group.get(), 4);
  for (const double loss : {1.0, 2.0, 4.0}) sum.add(at::scalar_tensor(loss), 0.5);
  EXPECT_EQ(sum.take_total(9), 3 * 3.5);
}

}  // namespace
}  // namespace fathom::train
