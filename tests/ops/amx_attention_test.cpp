// Attention in AMX's tiles: against the formula in double precision, beside LibTorch's flash attention, and the same
// bits and bytes twice.
#include "ops/attention/amx_attention.h"

#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "ledger/ledger.h"
#include "phantom/device.h"
#include "tests/ops/compare.h"
#include "tests/ops/threads.h"

namespace fathom::ops::amx_attention_test {
namespace {

using Lengths = std::vector<int64_t>;
constexpr const char* kNoAmx = "this processor has no AMX, or oneDNN is kept from it";

struct Case {
  const char* name;
  Lengths lengths;
  int64_t heads, key_heads, size;
};

std::vector<at::Tensor> draw_heads(const Case& drawn, at::Device device = at::kCPU) {
  at::manual_seed(8);
  const int64_t tokens = std::accumulate(drawn.lengths.begin(), drawn.lengths.end(), int64_t{0});
  std::vector<at::Tensor> heads;
  for (const int64_t count : {drawn.heads, drawn.key_heads, drawn.key_heads}) {
    const at::Tensor x_THE =
        device.is_cpu() ? draw({tokens, count, drawn.size}, at::kBFloat16)
                        : at::empty({tokens, count, drawn.size}, at::TensorOptions(device).dtype(at::kBFloat16));
    heads.push_back(x_THE);
  }
  return heads;
}

using AttendOne =
    std::function<at::Tensor(const at::Tensor& q_BHSE, const at::Tensor& k_BHSE, const at::Tensor& v_BHSE)>;

// Each document alone, with keys and values for every query head.
Operator each_document(const Lengths& lengths, const AttendOne& attend) {
  return [lengths, attend](const std::vector<at::Tensor>& in) {
    std::vector<at::Tensor> outputs;
    int64_t start = 0;
    for (const int64_t length : lengths) {
      const auto heads = [&](size_t i) {
        return in[i]
            .narrow(0, start, length)
            .repeat_interleave(in[0].size(1) / in[i].size(1), 1)
            .transpose(0, 1)
            .unsqueeze(0);
      };
      outputs.push_back(attend(heads(0), heads(1), heads(2)).squeeze(0).transpose(0, 1));
      start += length;
    }
    return at::cat(outputs);
  };
}

at::Tensor formula(const at::Tensor& q_BHSE, const at::Tensor& k_BHSE, const at::Tensor& v_BHSE) {
  const int64_t length = q_BHSE.size(2);
  const at::Tensor scores =
      at::matmul(q_BHSE, k_BHSE.transpose(-1, -2)) / std::sqrt(static_cast<double>(q_BHSE.size(3)));
  const at::Tensor hidden = at::ones({length, length}, at::kBool).triu(1);
  return at::matmul(at::softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()), -1), v_BHSE);
}

at::Tensor flash(const at::Tensor& q_BHSE, const at::Tensor& k_BHSE, const at::Tensor& v_BHSE) {
  return at::scaled_dot_product_attention(q_BHSE, k_BHSE, v_BHSE, {}, 0, true);
}

Operator in_tiles(const Lengths& lengths) {
  return [lengths](const std::vector<at::Tensor>& in) { return amx_attention(in[0], in[1], in[2], lengths); };
}

class AmxAttention : public ::testing::TestWithParam<std::tuple<Case, int>> {
 protected:
  void SetUp() override {
    if (!has_amx_attention(at::kCPU, at::kBFloat16)) GTEST_SKIP() << kNoAmx;
  }
};

// LibTorch rounds sums of blocks to BF16, and the gradient of each query head's keys and values.
TEST_P(AmxAttention, errs_no_more_than_flash_attention_of_libtorch) {
  const auto& [drawn, count] = GetParam();
  const Threads threads(count);
  const std::vector<at::Tensor> inputs = draw_heads(drawn);
  std::vector<at::Tensor> wide;
  for (const at::Tensor& input : inputs) wide.push_back(input.to(at::kDouble));
  const Results exact = run(each_document(drawn.lengths, formula), wide);
  const Results own = run(in_tiles(drawn.lengths), inputs);
  const Results libtorch = run(each_document(drawn.lengths, flash), inputs);
  constexpr double kOrder = 1.02, kNothing = 1e-6;  // sums in another order; of gradients that are 0
  const auto expect_close = [&](const at::Tensor& x, const at::Tensor& other, const at::Tensor& expected) {
    EXPECT_LE(relative_difference(x, expected), tolerance(at::kBFloat16));
    EXPECT_LE((x.to(at::kDouble) - expected).norm().item<double>(),
              kOrder * (other.to(at::kDouble) - expected).norm().item<double>() + kNothing);
  };
  expect_close(own.output, libtorch.output, exact.output);
  if (drawn.lengths == Lengths{1}) return;  // the gradients of queries and keys are 0, by rounding more
  for (size_t i = 0; i < 3; ++i) expect_close(own.gradients[i], libtorch.gradients[i], exact.gradients[i]);
}

TEST_P(AmxAttention, gives_the_same_bits_twice) {
  const auto& [drawn, count] = GetParam();
  const Threads threads(count);
  const std::vector<at::Tensor> inputs = draw_heads(drawn);
  const Results first = run(in_tiles(drawn.lengths), inputs), second = run(in_tiles(drawn.lengths), inputs);
  EXPECT_TRUE(at::equal(first.output, second.output));
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(first.gradients[i], second.gradients[i])) << i;
}

// Bytes that are taken (> 0) and given back, in order, by forward and backward pass.
std::vector<int64_t> bytes_of(const Case& drawn, at::Device device, ledger::Ledger& ledger) {
  const std::vector<at::Tensor> inputs = draw_heads(drawn, device);
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.set_requires_grad(true));
  const at::Tensor gradient = at::empty(inputs[0].sizes(), inputs[0].options().requires_grad(false));
  if (device.is_cpu()) gradient.fill_(0.5);
  ledger.label();
  torch::autograd::backward({amx_attention(leaves[0], leaves[1], leaves[2], drawn.lengths)}, {gradient});
  ledger.label();
  std::vector<int64_t> bytes;
  for (const ledger::Ledger::Event& event : ledger.last_events()) bytes.push_back(event.bytes);
  return bytes;
}

TEST_P(AmxAttention, takes_the_same_memory_on_the_phantom_device) {
  const auto& [drawn, count] = GetParam();
  const Threads threads(count);
  const std::vector<int64_t> real = bytes_of(drawn, at::kCPU, ledger::install_cpu());
  ledger::Ledger ledger;
  const phantom::LedgerScope scope(ledger);
  EXPECT_EQ(bytes_of(drawn, phantom::device(), ledger), real);
  EXPECT_GE(real.size(), 8);  // output, logsumexp, three gradients, scratch twice
}

TEST_P(AmxAttention, reads_heads_with_gaps_between_them) {
  const auto& [drawn, count] = GetParam();
  const Threads threads(count);
  const std::vector<at::Tensor> inputs = draw_heads(drawn);
  const auto op = in_tiles(drawn.lengths);
  const auto spread = [&](const std::vector<at::Tensor>& in) {
    std::vector<at::Tensor> strided;
    for (const at::Tensor& x : in) strided.push_back(at::cat({x, x}, 2).narrow(2, 0, x.size(2)));
    return op(strided);
  };
  const Results dense = run(op, inputs), strided = run(spread, inputs);
  EXPECT_TRUE(at::equal(dense.output, strided.output));
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(dense.gradients[i], strided.gradients[i])) << i;
}

const Case kCases[] = {{"one_token", {1}, 2, 1, 64},         {"few_tokens", {5}, 2, 2, 16},
                       {"less_than_a_tile", {31}, 4, 2, 64}, {"more_than_a_tile", {33}, 3, 3, 18},
                       {"odd_heads", {129}, 6, 3, 80},       {"multi_query", {255}, 5, 1, 96},
                       {"wide_heads", {300}, 2, 1, 128},     {"two_blocks_of_keys", {600}, 3, 3, 64},
                       {"rows", {127, 127, 127}, 4, 2, 32},  {"documents", {1, 260, 7, 513, 2, 64}, 6, 3, 48}};

INSTANTIATE_TEST_SUITE_P(Cases, AmxAttention,
                         ::testing::Combine(::testing::ValuesIn(kCases), ::testing::Values(1, 2, 5)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  std::to_string(std::get<1>(info.param)) + "_threads";
                         });

TEST(AmxAttentionOf, what_it_takes_is_bf16_on_a_cpu_with_amx) {
  const bool amx = at::native::cpublas::could_pack(at::kBFloat16);
  EXPECT_EQ(has_amx_attention(at::kCPU, at::kBFloat16), amx);
  EXPECT_EQ(has_amx_attention(phantom::device(), at::kBFloat16), amx);
  EXPECT_FALSE(has_amx_attention(at::kCPU, at::kFloat));
  EXPECT_FALSE(has_amx_attention(at::kCPU, at::kHalf));
  EXPECT_FALSE(has_amx_attention(at::kCUDA, at::kBFloat16));
}

}  // namespace
}  // namespace fathom::ops::amx_attention_test
