// Operators that are timed within others, and the table that is made of them.
#include "play/operator_timer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_value.h"
#include "ops/traffic.h"
#include "play/measure_operators.h"

namespace fathom::play {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;

TEST(OperatorTimer, TellsSidesBytesAndSecondsOfEachOperator) {
  const at::Tensor a = at::ones({256, 512}), b = at::ones({512, 128}), sum = at::ones({1 << 20});
  OperatorTimer timer(at::kCPU);
  const ops::DeviceMark begin(at::kCPU);
  {
    const ArithmeticCount count(at::kCPU, &timer);
    at::mm(a, b);
    sum.add_(sum);
    a.view({-1});
  }
  const double whole = ops::DeviceMark(at::kCPU).seconds_since(begin);
  const std::vector<TimedOperator> timed = timer.take();
  ASSERT_THAT(timed, ElementsAre(Field(&TimedOperator::name, "aten::mm"), Field(&TimedOperator::name, "aten::add_")));
  ASSERT_TRUE(timed[0].product);
  EXPECT_THAT((std::array{timed[0].product->m, timed[0].product->k, timed[0].product->n}), ElementsAre(256, 512, 128));
  EXPECT_EQ(timed[1].bytes, int64_t{3} << 22);
  EXPECT_GT(timed[0].seconds, 0);
  EXPECT_GT(timed[1].seconds, 0);
  EXPECT_LT(timed[0].seconds + timed[1].seconds, whole);
  EXPECT_THAT(timer.take(), ::testing::IsEmpty());
}

TEST(OperatorTimer, CountsTheTimeOfAnOperatorWithinAnotherOnce) {
  const at::Tensor small = at::ones({16}), large = at::ones({1 << 24});
  OperatorTimer timer(at::kCPU);
  {
    const ArithmeticCount count(at::kCPU, &timer);
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::outer", ops::traffic(small));
    large.add_(large);
  }
  const std::vector<TimedOperator> timed = timer.take();
  ASSERT_EQ(timed.size(), 2);
  EXPECT_EQ(timed[0].name, "fathom::outer");
  EXPECT_LT(timed[0].seconds, timed[1].seconds / 2);
}

TEST(MeasuredOperators, BecomeTheTableThatTimesOfStepsAreToldBy) {
  TableHead head;
  head.gpu.product = "NVIDIA Example";
  head.gpu.bf16_flops = 100e12;
  head.measured_on = "2026-11-21";
  head.gap_seconds = 2e-6;
  head.launch_seconds = 9e-6;
  const plan::ProductSides sides{4096, 4096, 1024};
  const plan::AttentionSides attention{2, 8, 1024, 64, true};
  const auto product = [&](double seconds) { return TimedOperator{"aten::mm", at::kBFloat16, sides, {}, 0, seconds}; };
  const auto sum = [](int64_t bytes, double seconds) {
    return TimedOperator{"aten::add_", at::kFloat, {}, {}, bytes, seconds};
  };
  const std::vector<TimedOperator> timed = {
      product(9e-4),
      product(5e-4),
      product(1e-6),  // the median counts
      {"aten::bmm", at::kBFloat16, plan::ProductSides{64, 64, 64, 8}, {}, 0, 1e-3},
      {"aten::mm", at::kFloat, plan::ProductSides{1024, 1024, 1024}, {}, 0, 1e-3},
      {"aten::_flash_attention_backward", at::kBFloat16, {}, attention, 0, 3e-4},
      sum(100'000'000, 1e-4),
      sum(16, 1e-5),
      sum(1'000'000, 0),  // what a phantom's clock says
  };
  const Json table = table_of(head, timed);
  EXPECT_EQ(table.at("products").size(), 2);
  EXPECT_EQ(table.at("streams").size(), 1);
  EXPECT_EQ(table.at("tflops").at("bfloat16"), 100);
  EXPECT_NEAR(table.at("tflops").at("float32").get<double>(), 2 * std::pow(1024.0, 3) / 1e-3 / 1e12, 1e-6);
  EXPECT_NEAR(table.at("memory_gb_per_second").get<double>(), 1000, 1e-6) << "not listed: the most that was measured";

  const auto times = plan::OperatorTimes::from_json(table, "the table");
  EXPECT_NEAR(times.product(DType::kBF16, sides), 5e-4, 1e-7);
  EXPECT_NEAR(times.stream("aten::add_", 100'000'000), 1e-4, 1e-7);
  const auto flops = static_cast<int64_t>(10.0 * 1024 * 1025 / 2 * 2 * 8 * 64);
  EXPECT_NEAR(times.attention(DType::kBF16, attention, flops), 3e-4, 1e-7);
  EXPECT_NEAR(times.gap(), 2e-6, 1e-9);
  EXPECT_NEAR(times.launch(), 9e-6, 1e-9);
}

}  // namespace
}  // namespace fathom::play
