// The memory-efficient kernel's place is taken by its formula on the CPU, as strict about what it is given; the other
// tests of attention ask for it by kMemoryEfficient. Here: what is kept for the backward pass and what is asked for.
#include "ops/attention/cuda_attention.h"

#include <torch/library.h>

#include <limits>

#include "tests/ops/compare.h"

namespace fathom::ops::cuda_attention_test {
namespace {

using MaybeTensor = std::optional<at::Tensor>;

// What the last forward pass was given.
struct Seen {
  bool with_sums = false;
  c10::weak_intrusive_ptr<c10::StorageImpl> keys{c10::intrusive_ptr<c10::StorageImpl>()};
};
Seen seen;

// [S, S]: whether a query sees a key.
at::Tensor visible(int64_t length, const MaybeTensor& offsets, std::optional<int64_t> window) {
  at::Tensor pairs = at::ones({length, length}, at::kBool).tril_();
  if (window) pairs.triu_(1 - *window);
  if (!offsets) return pairs;
  const at::Tensor within = at::zeros({length, length}, at::kBool);
  const auto* borders = offsets->data_ptr<int32_t>();
  for (int64_t i = 0; i + 1 < offsets->numel(); ++i) {
    const int64_t count = borders[i + 1] - borders[i];
    within.narrow(0, borders[i], count).narrow(1, borders[i], count).fill_(true);
  }
  return pairs.logical_and_(within);
}

at::Tensor by_heads(const at::Tensor& x_BSHE) { return x_BSHE.to(at::kDouble).transpose(1, 2); }

// Scores of the pairs that see each other, [B, H, S, S].
at::Tensor scores_of(const at::Tensor& q_BSHE, const at::Tensor& k_BSHE, double scale, const at::Tensor& visible_SS) {
  const at::Tensor scores = at::matmul(by_heads(q_BSHE), by_heads(k_BSHE).transpose(2, 3)) * scale;
  return scores.masked_fill(visible_SS.logical_not(), -std::numeric_limits<double>::infinity());
}

// The kernel has log-sum-exps of each row, or of each document of the one row, padded to whole 32s.
int64_t padded(int64_t length) { return (length + 31) / 32 * 32; }

// Calls body(padded_HS, sums_HS), views of the same numbers in both orders.
template <typename Body>
void for_each_text(const at::Tensor& padded_NHS, const at::Tensor& sums_BHS, const MaybeTensor& offsets,
                   const Body& body) {
  const auto text = [&](int64_t number, int64_t row, int64_t first, int64_t length) {
    body(padded_NHS.select(0, number).narrow(1, 0, length), sums_BHS.select(0, row).narrow(1, first, length));
  };
  if (!offsets) {
    for (int64_t row = 0; row < sums_BHS.size(0); ++row) text(row, row, 0, sums_BHS.size(2));
    return;
  }
  const auto* borders = offsets->data_ptr<int32_t>();
  for (int64_t i = 0; i + 1 < offsets->numel(); ++i) text(i, 0, borders[i], borders[i + 1] - borders[i]);
}

at::Tensor sums_of_kernel(const at::Tensor& sums_BHS, const MaybeTensor& offsets, int64_t longest) {
  const int64_t texts = offsets ? offsets->numel() - 1 : sums_BHS.size(0);
  const at::Tensor kept = at::full({texts, sums_BHS.size(1), padded(longest)}, std::numeric_limits<double>::infinity(),
                                   at::TensorOptions(at::kFloat));
  for_each_text(kept, sums_BHS, offsets, [](const at::Tensor& to, const at::Tensor& from) { to.copy_(from); });
  return kept;
}

at::Tensor sums_of_rows(const at::Tensor& kept, at::IntArrayRef sizes, const MaybeTensor& offsets) {
  at::Tensor sums_BHS = at::empty(sizes, at::kDouble);
  for_each_text(kept, sums_BHS, offsets, [](const at::Tensor& from, const at::Tensor& to) { to.copy_(from); });
  return sums_BHS;
}

void check_heads(const at::Tensor& q_BSHE, const at::Tensor& k_BSHE, const at::Tensor& v_BSHE) {
  const int64_t vector = q_BSHE.scalar_type() == at::kFloat ? 4 : 8;
  for (const at::Tensor& x : {q_BSHE, k_BSHE, v_BSHE}) {
    TORCH_CHECK(x.sizes() == q_BSHE.sizes(), "one key head and one value head for each query head");
    TORCH_CHECK(x.stride(3) == 1 && x.size(3) % vector == 0, "whole vectors");
  }
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt> forward(
    const at::Tensor& q_BSHE, const at::Tensor& k_BSHE, const at::Tensor& v_BSHE, const MaybeTensor& /*bias*/,
    const MaybeTensor& offsets_q, const MaybeTensor& /*offsets_k*/, std::optional<c10::SymInt> longest_q,
    std::optional<c10::SymInt> longest_k, double /*dropout*/, int64_t mask, bool with_sums, std::optional<double> scale,
    const MaybeTensor& /*lengths_k*/, std::optional<int64_t> window) {
  check_heads(q_BSHE, k_BSHE, v_BSHE);
  TORCH_CHECK(mask == 1, "causal");
  seen.with_sums = with_sums;
  seen.keys = k_BSHE.storage().getWeakStorageImpl();
  const at::Tensor scores = scores_of(q_BSHE, k_BSHE, *scale, visible(q_BSHE.size(1), offsets_q, window));
  const at::Tensor out = at::matmul(scores.softmax(-1), by_heads(v_BSHE)).transpose(1, 2).to(q_BSHE.scalar_type());
  const at::Tensor sums =
      with_sums ? sums_of_kernel(scores.logsumexp(-1), offsets_q, longest_q->expect_int()) : at::empty({0}, at::kFloat);
  return {out.contiguous(), sums, at::empty({}, at::kLong), at::empty({}, at::kLong), *longest_q, *longest_k};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward(
    const at::Tensor& gradient_BSHE, const at::Tensor& q_BSHE, const at::Tensor& k_BSHE, const at::Tensor& v_BSHE,
    const MaybeTensor& /*bias*/, const at::Tensor& out_BSHE, const MaybeTensor& offsets_q,
    // NOLINTNEXTLINE(performance-unnecessary-value-param): the operator's schema has it so
    const MaybeTensor& /*offsets_k*/, c10::SymInt /*longest_q*/, c10::SymInt /*longest_k*/, const at::Tensor& sums,
    double /*dropout*/, const at::Tensor& /*seed*/, const at::Tensor& /*offset*/, int64_t mask, bool /*of_bias*/,
    std::optional<double> scale, std::optional<int64_t> /*splits*/, std::optional<int64_t> window, bool /*shared*/) {
  check_heads(q_BSHE, k_BSHE, v_BSHE);
  TORCH_CHECK(mask == 1, "causal");
  const at::Tensor scores = scores_of(q_BSHE, k_BSHE, *scale, visible(q_BSHE.size(1), offsets_q, window));
  const at::Tensor sums_BHS = sums_of_rows(sums, scores.sizes().slice(0, 3), offsets_q);
  const at::Tensor p = (scores - sums_BHS.unsqueeze(-1)).exp(), of_out = by_heads(gradient_BSHE);
  const at::Tensor of_p = at::matmul(of_out, by_heads(v_BSHE).transpose(2, 3));
  const at::Tensor of_scores = p * (of_p - (of_out * by_heads(out_BSHE)).sum(-1, true)) * *scale;
  const auto made = [&](const at::Tensor& x_BHSE) {
    return x_BHSE.transpose(1, 2).to(q_BSHE.scalar_type()).contiguous();
  };
  return {made(at::matmul(of_scores, by_heads(k_BSHE))), made(at::matmul(of_scores.transpose(2, 3), by_heads(q_BSHE))),
          made(at::matmul(p.transpose(2, 3), of_out)), at::Tensor()};
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("_efficient_attention_forward", forward);
  library.impl("_efficient_attention_backward", backward);
}

struct Inputs {
  at::Tensor q_BSHE, k_BSKE, v_BSKE;
};

Inputs draw_inputs(int64_t key_heads, int64_t size) {
  at::manual_seed(8);
  return {draw({2, 21, 6, size}, at::kFloat), draw({2, 21, key_heads, size}, at::kFloat),
          draw({2, 21, key_heads, size}, at::kFloat)};
}

at::Tensor attend(const Inputs& in) {
  return cuda_attention(in.q_BSHE, in.k_BSKE, in.v_BSKE, footprint::AttentionKernel::kMemoryEfficient, nullptr, 0);
}

TEST(MemoryEfficientAttention, AsksForTheSumsOnlyWhereThereIsABackwardPass) {
  Inputs in = draw_inputs(2, 8);
  attend(in);
  EXPECT_FALSE(seen.with_sums);
  in.v_BSKE.set_requires_grad(true);
  attend(in);
  EXPECT_TRUE(seen.with_sums);
}

TEST(MemoryEfficientAttention, KeepsNoKeysForEveryQueryHead) {
  const Inputs in = draw_inputs(2, 8);
  in.k_BSKE.set_requires_grad(true);
  const at::Tensor out = attend(in);
  EXPECT_TRUE(seen.keys.expired());
}

TEST(MemoryEfficientAttention, AsksForTheSumsWhereThereAreSinks) {
  const Inputs in = draw_inputs(2, 8);
  cuda_attention(in.q_BSHE, in.k_BSKE, in.v_BSKE, footprint::AttentionKernel::kMemoryEfficient, nullptr, 0,
                 draw({6}, at::kFloat));
  EXPECT_TRUE(seen.with_sums);
}

// A single key head is what every query head reads, without a copy.
TEST(MemoryEfficientAttention, SharesASingleKeyHead) {
  const Inputs in = draw_inputs(1, 8);
  attend(in);
  EXPECT_EQ(seen.keys.lock().get(), in.k_BSKE.storage().unsafeGetStorageImpl());
}

TEST(MemoryEfficientAttention, MakesOnlyTheGradientsThatAreWanted) {
  for (const int64_t size : {8, 10}) {  // in whole vectors, and not
    const Inputs in = draw_inputs(2, size);
    in.v_BSKE.set_requires_grad(true);
    const at::Tensor out = attend(in);
    torch::autograd::backward({out}, {at::ones_like(out)});
    EXPECT_TRUE(in.v_BSKE.grad().defined());
    EXPECT_FALSE(in.q_BSHE.grad().defined());
    EXPECT_FALSE(in.k_BSKE.grad().defined());
  }
}

}  // namespace
}  // namespace fathom::ops::cuda_attention_test
