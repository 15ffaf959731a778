// When sums begin and end, and what the gradients are meanwhile; what ranks exchange is tested where they are processes
// (tests/app/processes_test.cpp).
#include "dist/gradient_buckets.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

namespace fathom::dist {
namespace {

using ::testing::ElementsAre;

// Every rank has the same; notes what begins and ends.
class Recorded final : public Group {
 public:
  explicit Recorded(int64_t size) : Group(0, size) {}
  void begin(Sum& sum) override { events.push_back("begin " + std::to_string(sum.tensor.numel())); }
  void end(Sum& sum) override {
    events.push_back("end " + std::to_string(sum.tensor.numel()));
    sum.tensor.mul_(size());
  }
  std::unique_ptr<Transfer> begin_gather(const at::Tensor&) override { return nullptr; }
  std::unique_ptr<Transfer> begin_exchange(const std::vector<std::vector<Span>>&,
                                           const std::vector<std::vector<Span>>&) override {
    return nullptr;
  }
  std::vector<double> gather(double number) override { return {number}; }
  std::vector<std::string> gather(const std::string& text) override { return {text}; }
  std::vector<std::string> gather_to_first(const std::string& text) override { return {text}; }
  void sum(std::vector<double>&) override {}
  void meet() override {}
  std::unique_ptr<Group> part(const std::vector<int64_t>&) override { return nullptr; }
  void now(const std::string&) override {}
  void tell_failure(const std::string&) noexcept override {}

  std::vector<std::string> events;
};

at::Tensor leaf(int64_t numbers, at::ScalarType type = at::kFloat) {
  return at::ones({numbers}, type).requires_grad_();
}

TEST(GradientBuckets, AreSummedWhileTheBackwardPassGoesOn) {
  const std::vector<at::Tensor> parameters = {leaf(3), leaf(5), leaf(2)};  // as a forward pass reads them
  Recorded group(4);
  GradientBuckets buckets(group, parameters, /*bytes=*/4 * 7);
  // From the end on, until a bucket has its bytes.
  ASSERT_EQ(buckets.sums().size(), 2U);
  EXPECT_EQ(buckets.sums()[0].tensor.numel(), 2 + 5);
  EXPECT_EQ(buckets.sums()[0].staging.numel(), 3 * 2);
  const auto loss = [&] {
    at::Tensor x = parameters[0].sum();
    x.register_hook([&](const at::Tensor&) { group.events.emplace_back("gradient of the first"); });
    x = x + (parameters[1].sum() + parameters[2].sum()) * x.detach();
    return x;
  };
  torch::autograd::backward({loss()}, {});  // a micro-batch before the last
  EXPECT_THAT(group.events, ElementsAre("gradient of the first"));
  EXPECT_TRUE(parameters[1].grad().is_alias_of(buckets.sums()[0].tensor));
  group.events.clear();
  buckets.expect_last();
  torch::autograd::backward({loss()}, {});
  buckets.finish();
  EXPECT_THAT(group.events,
              ::testing::UnorderedElementsAre("gradient of the first", "begin 7", "begin 3", "end 7", "end 3"));
  EXPECT_EQ(std::find(group.events.begin(), group.events.end(), "end 7") <
                std::find(group.events.begin(), group.events.end(), "end 3"),
            true);
  EXPECT_EQ(parameters[0].grad().sum().item<double>(), 4 * 2 * 3);
  EXPECT_EQ(parameters[2].grad().sum().item<double>(), 4 * 2 * 2 * 3);
  buckets.clear();
  EXPECT_EQ(parameters[2].grad().sum().item<double>(), 0);
}

TEST(GradientBuckets, HoldOneTypeAndDoWithoutABackwardPass) {
  const std::vector<at::Tensor> parameters = {leaf(3), leaf(5, at::kBFloat16), leaf(2)};
  Recorded group(2);
  GradientBuckets buckets(group, parameters);
  ASSERT_EQ(buckets.sums().size(), 3U);
  buckets.expect_last();
  buckets.finish();  // of a rank without a share of the step
  EXPECT_THAT(group.events, ElementsAre("begin 2", "begin 5", "end 2", "begin 3", "end 5", "end 3"));
}

}  // namespace
}  // namespace fathom::dist
