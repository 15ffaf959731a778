// The gated delta rule against its recurrent form in double precision: in rows, in documents, in threads, and token by
// token; and the norm behind it.
#include "ops/delta/gated_delta.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "ops/gated_norm.h"
#include "tests/ops/compare.h"
#include "tests/ops/packed_row.h"
#include "tests/ops/threads.h"

namespace fathom::ops::gated_delta_test {
namespace {

at::Tensor silu_convolved(const at::Tensor& x_TD, const at::Tensor& taps_DJ) {
  const at::Tensor padded_TD = at::constant_pad_nd(x_TD, {0, 0, taps_DJ.size(1) - 1, 0});
  at::Tensor sums_TD = at::zeros_like(x_TD);
  for (int64_t j = 0; j < taps_DJ.size(1); ++j) {
    sums_TD = sums_TD + padded_TD.narrow(0, j, x_TD.size(0)) * taps_DJ.select(1, j);
  }
  return at::silu(sums_TD);
}

// One text, token by token: mixed, strengths, decays, taps, rates, biases.
at::Tensor formula_of_text(const arch::GatedDelta& delta, const std::vector<at::Tensor>& in, int64_t first,
                           int64_t length) {
  const auto part = [&](size_t index) { return in[index].narrow(0, first, length); };
  const auto unit = [](const at::Tensor& x) { return x * (x * x).sum(at::IntArrayRef{-1}, true).add(1e-6).rsqrt(); };
  const int64_t group = delta.value_heads / delta.key_heads;
  const std::vector<at::Tensor> parts =
      silu_convolved(part(0), in[3]).split_with_sizes({delta.keys(), delta.keys(), delta.values()}, 1);
  const auto heads = [&](const at::Tensor& x) {
    return unit(x.unflatten(1, {delta.key_heads, -1})).repeat_interleave(group, 1);
  };
  const at::Tensor queries = heads(parts[0]) * std::pow(static_cast<double>(delta.key_dim), -0.5);
  const at::Tensor keys = heads(parts[1]), values = parts[2].unflatten(1, {delta.value_heads, -1});
  const at::Tensor strengths = part(1).sigmoid();
  const at::Tensor decays = (at::softplus(part(2) + in[5]) * -in[4].exp()).exp();
  at::Tensor state_HED = at::zeros({delta.value_heads, delta.key_dim, delta.value_dim}, queries.options());
  std::vector<at::Tensor> answers;
  for (int64_t token = 0; token < length; ++token) {
    const at::Tensor key_HE1 = keys.select(0, token).unsqueeze(2);
    state_HED = state_HED * decays.select(0, token).view({-1, 1, 1});
    const at::Tensor held_HD = (state_HED * key_HE1).sum(1);
    const at::Tensor written_HD = (values.select(0, token) - held_HD) * strengths.select(0, token).unsqueeze(1);
    state_HED = state_HED + key_HE1 * written_HD.unsqueeze(1);
    answers.push_back((state_HED * queries.select(0, token).unsqueeze(2)).sum(1).flatten());
  }
  return at::stack(answers);
}

at::Tensor formula(const arch::GatedDelta& delta, const std::vector<at::Tensor>& in,
                   const std::vector<int64_t>& lengths) {
  std::vector<at::Tensor> texts;
  int64_t first = 0;
  for (const int64_t length : lengths) {
    texts.push_back(formula_of_text(delta, in, first, length));
    first += length;
  }
  return at::cat(texts);
}

// Of what projections make; in double precision there is no kernel, and ATen's operators do what they do on a GPU.
class GatedDelta : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(5); }
  static at::ScalarType wide() { return GetParam() == at::kDouble ? at::kDouble : at::kFloat; }
  static std::vector<at::Tensor> inputs(const arch::GatedDelta& delta, int64_t tokens) {
    const int64_t width = 2 * delta.keys() + delta.values(), heads = delta.value_heads;
    return {draw({tokens, width}, GetParam()),
            draw({tokens, heads}, GetParam()),
            draw({tokens, heads}, GetParam()),
            draw({width, delta.taps}, GetParam()),
            draw({heads}, at::kFloat).sub_(2).to(wide()),
            draw({heads}, wide())};
  }
  static at::Tensor ours(const arch::GatedDelta& delta, const std::vector<at::Tensor>& in, int64_t length,
                         const Documents* documents = nullptr) {
    return gated_delta(delta, in[0], in[1], in[2], {in[3], in[4], in[5]}, length, documents);
  }
};

// What is one number for a value head is a sum over tokens that may be near zero: its error is held against theirs.
void expect_near(const Operator& ours, const Operator& reference, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> wide;
  for (const at::Tensor& input : inputs) wide.push_back(input.to(at::kDouble));
  const Results actual = run(ours, inputs), expected = run(reference, wide);
  const double most = 4 * tolerance(inputs[0].scalar_type());
  EXPECT_LE(relative_difference(actual.output, expected.output), most);
  const double of_tokens = expected.gradients[2].norm().item<double>();
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(actual.gradients[i].scalar_type(), inputs[i].scalar_type());
    const at::Tensor &grad = actual.gradients[i].to(at::kDouble), &its = expected.gradients[i];
    const double size = i < 4 ? its.norm().item<double>() : of_tokens * 4 + its.norm().item<double>();
    EXPECT_LE((grad - its).norm().item<double>(), most * size + 1e-30) << "gradient of input " << i;
  }
}

const std::vector<arch::GatedDelta> kSizes = {
    {2, 6, 8, 14, 4}, {1, 1, 20, 6, 1}, {3, 3, 5, 32, 2}, {1, 2, 9, 7, 3}, {4, 12, 31, 1, 9}};

TEST_P(GatedDelta, of_rows) {
  for (const arch::GatedDelta& delta : kSizes) {
    for (const auto& [rows, length] :
         std::vector<std::pair<int64_t, int64_t>>{{2, 5}, {1, 64}, {2, 67}, {1, 200}, {3, 1}}) {
      SCOPED_TRACE(std::to_string(rows) + " of " + std::to_string(length));
      const std::vector<int64_t> lengths(static_cast<size_t>(rows), length);
      EXPECT_TRUE(ours(delta, inputs(delta, rows * length), length).is_contiguous());
      expect_near([&](const auto& in) { return ours(delta, in, length); },
                  [&](const auto& in) { return formula(delta, in, lengths); }, inputs(delta, rows * length));
    }
  }
}

TEST_P(GatedDelta, of_documents) {
  const arch::GatedDelta delta = kSizes.front();
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{5, 1, 130, 13}, {64, 64}, {1, 1, 1}, {70}, {40, 90}}) {
    const Documents documents = documents_of(lengths);
    expect_near([&](const auto& in) { return ours(delta, in, sum(lengths), &documents); },
                [&](const auto& in) { return formula(delta, in, lengths); }, inputs(delta, sum(lengths)));
  }
}

// What is kept of it goes on, in passes of several tokens and of one.
TEST_P(GatedDelta, of_tokens_after_others) {
  const arch::GatedDelta delta = kSizes.front();
  const int64_t batch = 2, length = 90;
  const at::NoGradGuard no_gradients;
  const std::vector<at::Tensor> in = inputs(delta, batch * length);
  const at::Tensor whole = ours(delta, in, length).view({batch, length, delta.values()});
  for (const std::vector<int64_t>& passes : {std::vector<int64_t>{5, 1, 1, 70, 13}, {1, 1, 1, 87}, {90}, {89, 1}}) {
    const std::vector<at::Tensor> kept = {
        at::full({batch, delta.taps - 1, in[0].size(1)}, 77, in[0].options()),
        at::full({batch, delta.value_heads, delta.key_dim, delta.value_dim}, 77, wide())};
    int64_t seen = 0;
    for (const int64_t tokens : passes) {
      const auto part = [&](size_t index) {
        return in[index].view({batch, length, -1}).narrow(1, seen, tokens).flatten(0, 1).contiguous();
      };
      const at::Tensor made =
          gated_delta_after(delta, part(0), part(1), part(2), {in[3], in[4], in[5]}, kept, seen == 0);
      const at::Tensor expected = whole.narrow(1, seen, tokens).flatten(0, 1);
      EXPECT_LE(relative_difference(made, expected), 2 * tolerance(GetParam())) << "at " << seen;
      seen += tokens;
    }
  }
}

TEST_P(GatedDelta, is_the_same_in_any_number_of_threads) {
  const arch::GatedDelta delta = kSizes.front();
  const std::vector<at::Tensor> in = inputs(delta, 300);
  const Operator op = [&](const auto& leaves) { return ours(delta, leaves, 150); };
  Results alone, together;
  {
    const Threads threads(1);
    alone = run(op, in);
  }
  {
    const Threads threads(3);
    together = run(op, in);
  }
  EXPECT_TRUE(alone.output.equal(together.output));
  for (size_t i = 0; i < in.size(); ++i) EXPECT_TRUE(alone.gradients[i].equal(together.gradients[i])) << i;
}

// Keys of one direction, which hardly decay: the matrix that is inverted has no small entries.
TEST_P(GatedDelta, holds_where_all_keys_are_alike) {
  const arch::GatedDelta delta = {1, 1, 4, 3, 1};
  std::vector<at::Tensor> in = inputs(delta, 64), wide;
  in[0].narrow(1, 4, 4).fill_(1);
  in[3].abs_().add_(0.5);
  in[1].fill_(4), in[4].fill_(-4);
  for (const at::Tensor& input : in) wide.push_back(input.to(at::kDouble));
  const Results actual = run([&](const auto& leaves) { return ours(delta, leaves, 64); }, in);
  const Results expected = run([&](const auto& leaves) { return formula(delta, leaves, {64}); }, wide);
  EXPECT_LE(relative_difference(actual.output, expected.output), 8 * tolerance(GetParam()));
  EXPECT_LE(relative_difference(actual.gradients[0], expected.gradients[0]), 8 * tolerance(GetParam()));
}

TEST_P(GatedDelta, has_a_gated_norm_behind_it) {
  const Operator reference = [](const auto& in) {
    const at::Tensor normed = in[0] * ((in[0] * in[0]).mean(at::OptionalIntArrayRef({-1}), true) + 1e-3).rsqrt();
    return normed * in[2] * at::silu(in[1]);
  };
  for (const auto& [rows, width] : std::vector<std::pair<int64_t, int64_t>>{{7, 10}, {1, 3}, {40, 128}}) {
    expect_equal([](const auto& in) { return gated_norm(in[0], in[1], in[2], 1e-3); }, reference,
                 {draw({rows, width}, GetParam()), draw({rows, width}, GetParam()), draw({width}, wide())});
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GatedDelta, ::testing::Values(at::kFloat, at::kBFloat16, at::kDouble));

}  // namespace
}  // namespace fathom::ops::gated_delta_test
