// What linear layers keep for their backward passes, to the byte, and when they let go of it.
#include <optional>

#include "ledger/ledger.h"
#include "ops/linear/linear.h"
#include "tests/ops/compare.h"

namespace fathom::ops::linear_memory_test {
namespace {

constexpr int64_t kTokens = 64, kIn = 48, kOut = 32, kRank = 4;

at::Tensor leaf(at::IntArrayRef shape, bool trained) { return at::ones(shape).set_requires_grad(trained); }

Linear frozen() { return {leaf({kOut, kIn}, false), {}, std::nullopt}; }
Linear trained() { return {leaf({kOut, kIn}, true), {}, std::nullopt}; }
Linear adapted(double dropout = 0) {
  return {leaf({kOut, kIn}, false), {}, LoraAdapter{leaf({kRank, kIn}, true), leaf({kOut, kRank}, true), 1, dropout}};
}

// Bytes that the graph keeps besides the output.
int64_t kept_bytes(const Linear& layer, const LinearInput& input, const ComputeScope& compute) {
  const ledger::Ledger& ledger = ledger::install_cpu();
  const int64_t before = ledger.live_bytes();
  const at::Tensor y_TN = linear(input, layer, compute, true);
  return ledger.live_bytes() - before - static_cast<int64_t>(y_TN.nbytes());
}

TEST(LinearMemory, a_frozen_layer_keeps_nothing) {
  ledger::install_cpu();
  const ComputeScope compute(at::kCPU, at::kFloat);
  EXPECT_EQ(kept_bytes(frozen(), LinearInput(leaf({kTokens, kIn}, true)), compute), 0);
}

TEST(LinearMemory, no_copy_of_a_frozen_weight_outlives_its_product) {
  ledger::install_cpu();
  const AutocastScope autocast(at::kCPU, true);
  const ComputeScope compute(at::kCPU, at::kFloat);
  const LinearInput input(at::ones({kTokens, kIn}, at::kBFloat16).set_requires_grad(true));
  EXPECT_EQ(kept_bytes(frozen(), input, compute), 0);
  EXPECT_EQ(kept_bytes(trained(), input, compute), 2 * kOut * kIn);
}

TEST(LinearMemory, an_adapter_keeps_its_inner_product_and_a_byte_for_each_element_that_may_be_dropped) {
  ledger::install_cpu();
  const ComputeScope compute(at::kCPU, at::kFloat);
  const LinearInput input(leaf({kTokens, kIn}, true));
  EXPECT_EQ(kept_bytes(adapted(), input, compute), 4 * kTokens * kRank);
  EXPECT_EQ(kept_bytes(adapted(0.5), input, compute), 4 * kTokens * kRank + kTokens * kIn);
}

// Keeps its input: x * 2 is made again from x.
struct Doubled {
  explicit Doubled(const at::Tensor& x_TD)
      : value(x_TD * 2), input(value, [this, x = x_TD.detach()] {
          ++calls;
          const at::Tensor again = x * 2;
          made = c10::weak_intrusive_ptr<c10::StorageImpl>(
              c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(again.storage().unsafeGetStorageImpl()));
          return again;
        }) {}
  int calls = 0;
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> made;
  at::Tensor value;
  LinearInput input;
};

TEST(LinearMemory, an_input_that_can_be_made_again_is_not_kept) {
  ledger::install_cpu();
  const ComputeScope compute(at::kCPU, at::kFloat);
  std::optional<Doubled> doubled(std::in_place, leaf({kTokens, kIn}, true));
  const at::Storage storage = doubled->value.storage();
  std::vector<at::Tensor> outputs;
  for (const Linear& layer : {trained(), adapted()}) outputs.push_back(linear(doubled->input, layer, compute, true));
  const auto others = [&] { return storage.use_count() - 1; };
  EXPECT_GT(others(), 0);
  // The recipe refers to `doubled`, which therefore stays; only its tensors go.
  doubled->value.reset();
  doubled->input = LinearInput(at::ones({1}));
  EXPECT_EQ(others(), 0);
}

TEST(LinearMemory, layers_that_share_an_input_make_it_once_and_the_last_lets_go) {
  const ComputeScope compute(at::kCPU, at::kFloat);
  const at::Tensor x_TD = draw({kTokens, kIn}, at::kFloat).set_requires_grad(true);
  Doubled doubled(x_TD);
  const Linear first = trained(), second = adapted();
  const at::Tensor sum_TN = linear(doubled.input, first, compute, true) + linear(doubled.input, second, compute, true);
  EXPECT_EQ(doubled.calls, 0);
  doubled.input = LinearInput(at::ones({1}));
  torch::autograd::backward({sum_TN.sum()}, {});
  EXPECT_EQ(doubled.calls, 1);
  EXPECT_TRUE(doubled.made->expired());
  EXPECT_TRUE(first.weight_ND.grad().equal(at::mm(at::ones({kOut, kTokens}), x_TD.detach() * 2)));
}

TEST(LinearMemory, what_its_operator_does_not_keep_is_kept) {
  const ComputeScope compute(at::kCPU, at::kFloat);
  Doubled doubled(leaf({kTokens, kIn}, false));
  torch::autograd::backward({linear(doubled.input, trained(), compute, true).sum()}, {});
  EXPECT_EQ(doubled.calls, 0);
}

TEST(LinearMemory, a_graph_that_never_runs_backward_leaves_nothing) {
  const ledger::Ledger& ledger = ledger::install_cpu();
  const ComputeScope compute(at::kCPU, at::kFloat);
  const Linear layer = adapted(0.5);
  const at::Tensor x_TD = leaf({kTokens, kIn}, true);
  const int64_t before = ledger.live_bytes();
  linear(Doubled(x_TD).input, layer, compute, true);
  EXPECT_EQ(ledger.live_bytes(), before);
}

}  // namespace
}  // namespace fathom::ops::linear_memory_test
