// Experts and their router against a sum over all experts by LibTorch's own operators.
#include "ops/experts.h"

#include <limits>

#include "ops/activation.h"
#include "ops/routing.h"
#include "tests/ops/compare.h"

namespace fathom::ops::experts_test {
namespace {

constexpr int64_t kTokens = 23, kWidth = 10, kInner = 7, kExperts = 5;

// Of experts as gpt-oss has them: biases one after the other, and how gate and up are weighed, which take turns.
struct GptOss {
  at::Tensor gate_up_biases, down_biases;
  ClampedGate gate;
};

at::Tensor product_of(const at::Tensor& both, const GptOss* gpt_oss) {
  const int64_t inner = both.size(1) / 2;
  if (gpt_oss == nullptr) return at::silu(both.narrow(1, 0, inner)) * both.narrow(1, inner, inner);
  const double limit = gpt_oss->gate.limit;
  const at::Tensor gate = both.slice(1, 0, std::nullopt, 2).clamp_max(limit),
                   up = both.slice(1, 1, std::nullopt, 2).clamp(-limit, limit);
  return (up + 1) * gate * at::sigmoid(gate * gpt_oss->gate.slope);
}

// [T, N]: 1 of experts in groups whose two best scores have the largest sums.
at::Tensor open_TN(const at::Tensor& scores_TN, const RouterScores& rule) {
  const int64_t tokens = scores_TN.size(0), of_group = scores_TN.size(1) / rule.groups;
  const at::Tensor best = std::get<0>(scores_TN.view({tokens, rule.groups, of_group}).sort(-1, true)).narrow(-1, 0, 2);
  const at::Tensor rank_TG = best.sum(-1).argsort(int64_t{-1}, true).argsort(int64_t{-1});
  return rank_TG.lt(rule.open_groups).repeat_interleave(of_group, 1);
}

// Every expert for every token, with weight 0 where it is not chosen.
at::Tensor all_experts(const at::Tensor& x_TD, const at::Tensor& logits_TN, const at::Tensor& gate_up,
                       const at::Tensor& down, const Router& router, const GptOss* gpt_oss = nullptr,
                       const at::Tensor& corrections_N = {}) {
  const RouterScores& rule = router.scores;
  const at::Tensor scores_TN = rule.sigmoid ? at::sigmoid(logits_TN) : at::softmax(logits_TN, -1);
  at::Tensor by_TN = rule.corrected ? scores_TN + corrections_N : scores_TN;
  if (rule.groups > 1) by_TN = at::where(open_TN(by_TN, rule), by_TN, -100);
  const at::Tensor chosen_TK = std::get<1>(at::topk(by_TN, router.per_token));
  at::Tensor weights_TK = scores_TN.gather(1, chosen_TK);
  if (router.normalised) weights_TK = weights_TK / weights_TK.sum(-1, true);
  const at::Tensor weights_TN = at::zeros_like(scores_TN).scatter(1, chosen_TK, weights_TK * rule.scale);
  at::Tensor sum;
  const int64_t inner = down.size(1), width = x_TD.size(1);
  for (int64_t expert = 0; expert < router.experts; ++expert) {
    const auto biases = [&](const at::Tensor& all, int64_t rows) {
      return gpt_oss == nullptr ? std::nullopt : std::optional(all.narrow(0, expert * rows, rows));
    };
    at::Tensor none;
    const at::Tensor both = at::linear(x_TD, gate_up.narrow(0, expert * 2 * inner, 2 * inner),
                                       biases(gpt_oss ? gpt_oss->gate_up_biases : none, 2 * inner));
    const at::Tensor made = at::linear(product_of(both, gpt_oss), down.narrow(0, expert * width, width),
                                       biases(gpt_oss ? gpt_oss->down_biases : none, width)) *
                            weights_TN.select(1, expert).unsqueeze(1);
    sum = sum.defined() ? sum + made : made;
  }
  return sum;
}

struct Case {
  const char* name;
  int64_t per_token;
  bool normalised;
};

class ExpertsOf : public ::testing::TestWithParam<Case> {
 protected:
  Router router_{kExperts, GetParam().per_token, GetParam().normalised};
};

TEST_P(ExpertsOf, a_token_are_weighed_and_added_up) {
  at::manual_seed(7);
  const Operator ours = [this](const std::vector<at::Tensor>& in) {
    const ComputeScope compute(at::kCPU, at::kFloat);
    return experts(LinearInput(in[0]), route(in[1], router_, {}, nullptr), {kExperts, {in[2]}, {in[3]}}, compute);
  };
  const Operator reference = [this](const std::vector<at::Tensor>& in) {
    return all_experts(in[0], in[1], in[2], in[3], router_);
  };
  expect_equal(ours, reference,
               {draw({kTokens, kWidth}, at::kFloat), draw({kTokens, kExperts}, at::kFloat),
                draw({kExperts * 2 * kInner, kWidth}, at::kFloat), draw({kExperts * kWidth, kInner}, at::kFloat)});
}

// The columns of B are the experts' in turn.
at::Tensor merged(const at::Tensor& stack, const at::Tensor& a, const at::Tensor& b, double scaling) {
  std::vector<at::Tensor> parts;
  const int64_t rank = a.size(0) / kExperts;
  for (int64_t expert = 0; expert < kExperts; ++expert) {
    const at::Tensor b_OR = b.view({b.size(0), rank, kExperts}).select(2, expert);
    parts.push_back(at::mm(b_OR, a.narrow(0, expert * rank, rank)));
  }
  return stack + scaling * at::cat(parts);
}

TEST_P(ExpertsOf, a_token_have_adapters_as_if_these_were_merged) {
  at::manual_seed(8);
  const at::Tensor gate_up = draw({kExperts * 2 * kInner, kWidth}, at::kFloat),
                   down = draw({kExperts * kWidth, kInner}, at::kFloat);
  const Operator ours = [&](const std::vector<at::Tensor>& in) {
    const ComputeScope compute(at::kCPU, at::kFloat);
    const ExpertMatrices matrices{kExperts,
                                  {gate_up, std::nullopt, LoraAdapter{in[2], in[3], 0.7}},
                                  {down, std::nullopt, LoraAdapter{in[4], in[5], 1.9}}};
    return experts(LinearInput(in[0]), route(in[1], router_, {}, nullptr), matrices, compute);
  };
  const Operator reference = [&](const std::vector<at::Tensor>& in) {
    return all_experts(in[0], in[1], merged(gate_up.to(at::kDouble), in[2], in[3], 0.7),
                       merged(down.to(at::kDouble), in[4], in[5], 1.9), router_);
  };
  expect_equal(ours, reference,
               {draw({kTokens, kWidth}, at::kFloat), draw({kTokens, kExperts}, at::kFloat),
                draw({3 * kExperts, kWidth}, at::kFloat, 0.3), draw({2 * kInner, 3 * kExperts}, at::kFloat, 0.3),
                draw({2 * kExperts, kInner}, at::kFloat, 0.3), draw({kWidth, 2 * kExperts}, at::kFloat, 0.3)});
}

TEST_P(ExpertsOf, a_token_may_have_biases_and_a_gate_with_bounds) {
  at::manual_seed(13);
  Router router = router_;
  router.biased_experts = true;
  constexpr ClampedGate kGate = {1.702, 1.2};
  const Operator ours = [&](const std::vector<at::Tensor>& in) {
    const ComputeScope compute(at::kCPU, at::kFloat);
    ExpertMatrices matrices{kExperts, {in[2]}, {in[3]}, kGate};
    matrices.gate_up.biases = in[4];
    matrices.down.biases = in[5];
    return experts(LinearInput(in[0]), route(in[1], router, {}, nullptr), matrices, compute);
  };
  const Operator reference = [&](const std::vector<at::Tensor>& in) {
    const GptOss gpt_oss{in[4], in[5], kGate};
    return all_experts(in[0], in[1], in[2], in[3], router, &gpt_oss);
  };
  expect_equal(ours, reference,
               {draw({kTokens, kWidth}, at::kFloat), draw({kTokens, kExperts}, at::kFloat),
                draw({kExperts * 2 * kInner, kWidth}, at::kFloat), draw({kExperts * kWidth, kInner}, at::kFloat),
                draw({kExperts * 2 * kInner}, at::kFloat), draw({kExperts * kWidth}, at::kFloat)});
}

// Of a frozen base with biases, whose gate and up projections take turns in B too.
TEST_P(ExpertsOf, a_token_may_have_adapters_beside_biases) {
  at::manual_seed(14);
  Router router = router_;
  router.biased_experts = true;
  const at::Tensor gate_up = draw({kExperts * 2 * kInner, kWidth}, at::kFloat),
                   down = draw({kExperts * kWidth, kInner}, at::kFloat);
  const GptOss frozen{draw({kExperts * 2 * kInner}, at::kFloat), draw({kExperts * kWidth}, at::kFloat), {}};
  const Operator ours = [&](const std::vector<at::Tensor>& in) {
    const ComputeScope compute(at::kCPU, at::kFloat);
    ExpertMatrices matrices{kExperts,
                            {gate_up, std::nullopt, LoraAdapter{in[2], in[3], 0.7}},
                            {down, std::nullopt, LoraAdapter{in[4], in[5], 1.9}},
                            frozen.gate};
    matrices.gate_up.biases = frozen.gate_up_biases;
    matrices.down.biases = frozen.down_biases;
    return experts(LinearInput(in[0]), route(in[1], router, {}, nullptr), matrices, compute);
  };
  const Operator reference = [&](const std::vector<at::Tensor>& in) {
    const GptOss wide{frozen.gate_up_biases.to(at::kDouble), frozen.down_biases.to(at::kDouble), frozen.gate};
    return all_experts(in[0], in[1], merged(gate_up.to(at::kDouble), in[2], in[3], 0.7),
                       merged(down.to(at::kDouble), in[4], in[5], 1.9), router, &wide);
  };
  expect_equal(ours, reference,
               {draw({kTokens, kWidth}, at::kFloat), draw({kTokens, kExperts}, at::kFloat),
                draw({3 * kExperts, kWidth}, at::kFloat, 0.3), draw({2 * kInner, 3 * kExperts}, at::kFloat, 0.3),
                draw({2 * kExperts, kInner}, at::kFloat, 0.3), draw({kWidth, 2 * kExperts}, at::kFloat, 0.3)});
}

INSTANTIATE_TEST_SUITE_P(Routers, ExpertsOf,
                         ::testing::Values(Case{"one", 1, false}, Case{"two_normalised", 2, true},
                                           Case{"three", 3, false}, Case{"all", kExperts, true}),
                         [](const auto& info) { return info.param.name; });

// In three groups of two, which a correction closes and opens; and as a softmax in groups.
TEST(Experts, are_chosen_by_corrected_sigmoids_of_open_groups) {
  at::manual_seed(15);
  constexpr int64_t kCount = 6;
  const at::Tensor corrections_N = draw({kCount}, at::kFloat);
  for (const RouterScores& scores : {RouterScores{true, true, 3, 2, 2.5}, RouterScores{true, true, 1, 1, 1},
                                     RouterScores{true, false, 3, 1, 0.5}, RouterScores{false, false, 2, 1, 1}}) {
    for (const bool normalised : {false, true}) {
      const Router router{kCount, 2, normalised, /*biased_experts=*/false, scores};
      const Operator ours = [&](const std::vector<at::Tensor>& in) {
        const ComputeScope compute(at::kCPU, at::kFloat);
        const at::Tensor corrections = scores.corrected ? corrections_N : at::Tensor();
        return experts(LinearInput(in[0]), route(in[1], router, corrections, nullptr), {kCount, {in[2]}, {in[3]}},
                       compute);
      };
      const Operator reference = [&](const std::vector<at::Tensor>& in) {
        return all_experts(in[0], in[1], in[2], in[3], router, nullptr, corrections_N.to(at::kDouble));
      };
      expect_equal(ours, reference,
                   {draw({kTokens, kWidth}, at::kFloat), draw({kTokens, kCount}, at::kFloat),
                    draw({kCount * 2 * kInner, kWidth}, at::kFloat), draw({kCount * kWidth, kInner}, at::kFloat)});
    }
  }
}

// Sigmoids of which all are 0 weigh nothing, and have no gradient that is not a number.
TEST(Experts, may_all_have_scores_of_zero) {
  const Router router{4, 2, true, false, {.sigmoid = true}};
  at::Tensor logits_TN = at::full({3, 4}, -200.0F).set_requires_grad(true);
  const Routes routes = route(logits_TN, router, {}, nullptr);
  EXPECT_EQ(routes.weights_TK.abs().max().item<float>(), 0);
  routes.weights_TK.sum().backward();
  EXPECT_TRUE(logits_TN.grad().isfinite().all().item<bool>());
}

TEST(Experts, that_no_token_goes_to_have_a_gradient_of_zeros) {
  at::manual_seed(9);
  at::Tensor logits = draw({kTokens, kExperts}, at::kFloat);
  logits.select(1, 3).fill_(-100);
  at::Tensor gate_up = draw({kExperts * 2 * kInner, kWidth}, at::kFloat).set_requires_grad(true),
             down = draw({kExperts * kWidth, kInner}, at::kFloat).set_requires_grad(true);
  const at::Tensor y =
      experts(LinearInput(draw({kTokens, kWidth}, at::kFloat)), route(logits, {kExperts, 2, true}, {}, nullptr),
              {kExperts, {gate_up}, {down}}, ComputeScope(at::kCPU, at::kFloat));
  torch::autograd::backward({y.sum()}, {});
  EXPECT_EQ(gate_up.grad().narrow(0, 3 * 2 * kInner, 2 * kInner).abs().max().item<double>(), 0);
  EXPECT_EQ(down.grad().narrow(0, 3 * kWidth, kWidth).abs().max().item<double>(), 0);
  EXPECT_GT(down.grad().narrow(0, 2 * kWidth, kWidth).abs().max().item<double>(), 0);
}

// Experts' rows begin within blocks of NF4.
TEST(Experts, in_codes_are_those_that_the_codes_stand_for) {
  at::manual_seed(10);
  for (const quant::Scheme scheme :
       {quant::Scheme::kInt8, quant::Scheme::kFp8, quant::Scheme::kNf4, quant::Scheme::kNf4DoubleQuant}) {
    const auto quantized = [&](const at::Tensor& stack) {
      QuantizedMatrix matrix = empty_quantized_matrix(scheme, stack.size(0), stack.size(1), at::kCPU, {});
      quantize(matrix,
               [&](int64_t first, const at::Tensor& part) { part.copy_(stack.narrow(0, first, part.size(0))); });
      return matrix;
    };
    const QuantizedMatrix gate_up = quantized(draw({kExperts * 2 * kInner, kWidth}, at::kFloat)),
                          down = quantized(draw({kExperts * kWidth, kInner}, at::kFloat));
    const at::Tensor logits = draw({kTokens, kExperts}, at::kFloat), x = draw({kTokens, kWidth}, at::kFloat);
    const auto made = [&](const ExpertMatrices& matrices) {
      const at::Tensor leaf = x.clone().set_requires_grad(true);
      const at::Tensor y = experts(LinearInput(leaf), route(logits, {kExperts, 2, false}, {}, nullptr), matrices,
                                   ComputeScope(at::kCPU, at::kFloat));
      torch::autograd::backward({y.square().sum()}, {});
      return std::pair{y.detach(), leaf.grad()};
    };
    const auto [y, grad] = made({kExperts, {{}, gate_up}, {{}, down}});
    const auto [expected, expected_grad] =
        made({kExperts, {dequantize(gate_up, at::kFloat)}, {dequantize(down, at::kFloat)}});
    EXPECT_TRUE(at::equal(y, expected)) << quant::name_of(scheme);
    EXPECT_TRUE(at::equal(grad, expected_grad)) << quant::name_of(scheme);
  }
}

TEST(Experts, take_casts_that_are_there) {
  at::manual_seed(12);
  const at::Tensor x = draw({kTokens, kWidth}, at::kBFloat16), logits = draw({kTokens, kExperts}, at::kFloat),
                   gate_up = draw({kExperts * 2 * kInner, kWidth}, at::kFloat),
                   down = draw({kExperts * kWidth, kInner}, at::kFloat);
  std::vector<at::Tensor> results[2];
  for (const bool are_there : {false, true}) {
    const auto stack = [&](const at::Tensor& matrices) {
      ExpertStack made{matrices.clone()};
      if (are_there) {
        made.cast = matrices.to(at::kBFloat16);
        made.stored.fill_(std::numeric_limits<float>::quiet_NaN());
      }
      made.stored.set_requires_grad(true);
      return made;
    };
    const ExpertMatrices matrices{kExperts, stack(gate_up), stack(down)};
    const at::Tensor leaf = x.clone().set_requires_grad(true);
    const AutocastScope autocast(at::kCPU, true);
    const at::Tensor y = experts(LinearInput(leaf), route(logits, {kExperts, 2, true}, {}, nullptr), matrices,
                                 ComputeScope(at::kCPU, at::kFloat));
    torch::autograd::backward({y.to(at::kFloat).square().sum()}, {});
    results[are_there] = {y, leaf.grad(), matrices.gate_up.stored.grad(), matrices.down.stored.grad()};
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(results[1][i].equal(results[0][i])) << i;
  EXPECT_EQ(results[1][3].scalar_type(), at::kFloat);
}

TEST(Experts, in_bf16_are_near_those_in_fp32) {
  at::manual_seed(11);
  const at::Tensor x = draw({kTokens, kWidth}, at::kBFloat16), logits = draw({kTokens, kExperts}, at::kFloat),
                   gate_up = draw({kExperts * 2 * kInner, kWidth}, at::kBFloat16),
                   down = draw({kExperts * kWidth, kInner}, at::kBFloat16);
  const auto made = [&](at::ScalarType type) {
    return experts(LinearInput(x.to(type)), route(logits, {kExperts, 2, true}, {}, nullptr),
                   {kExperts, {gate_up.to(type)}, {down.to(type)}}, ComputeScope(at::kCPU, type));
  };
  EXPECT_LE(relative_difference(made(at::kBFloat16), made(at::kFloat)), 8e-3);
}

// load_balancing_loss_func of transformers, for two routers at once.
at::Tensor balance_of(const std::vector<at::Tensor>& logits, int64_t per_token, const at::Tensor& real) {
  at::Tensor chosen = at::zeros({kExperts}, at::kDouble), sum = at::zeros({kExperts}, at::kDouble);
  for (const at::Tensor& each : logits) {
    const at::Tensor p = at::softmax(each, -1);
    const at::Tensor top = std::get<1>(at::topk(p, per_token));
    chosen = chosen + (at::zeros_like(p).scatter(1, top, 1.0) * real.unsqueeze(1)).sum(0).detach();
    sum = sum + (p * real.unsqueeze(1)).sum(0);
  }
  const at::Tensor rows = real.sum() * static_cast<int64_t>(logits.size());
  return (chosen / rows * (sum / rows)).sum() * kExperts;
}

TEST(Balance, adds_what_transformers_adds_with_and_without_padding) {
  for (const bool padded : {false, true}) {
    at::manual_seed(12);
    at::Tensor real = at::ones({kTokens}, at::kFloat);
    if (padded) real.narrow(0, 15, 6).zero_();
    constexpr double kCoefficient = 0.3, kShare = 0.25, kScale = 8;
    const std::vector<at::Tensor> inputs = {draw({kTokens, kExperts}, at::kFloat),
                                            draw({kTokens, kExperts}, at::kFloat)};
    std::vector<at::Tensor> leaves, wide;
    for (const at::Tensor& each : inputs) {
      leaves.push_back(each.clone().set_requires_grad(true));
      wide.push_back(each.to(at::kDouble).set_requires_grad(true));
    }
    const auto balance = std::make_shared<Balance>(kCoefficient, kExperts, padded ? real : at::Tensor());
    at::Tensor loss = at::zeros({}, at::kFloat);
    for (const at::Tensor& leaf : leaves)
      loss = loss + route(leaf, {kExperts, 2, true}, {}, balance).weights_TK.sum() * 0;
    loss = balance->complete(loss, kShare, kScale);
    const at::Tensor expected = balance_of(wide, 2, real.to(at::kDouble)) * (kCoefficient * kShare);
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-6);
    route(inputs[0], {kExperts, 2, true}, {}, balance);  // computed again: it changes nothing
    torch::autograd::backward({loss}, {});
    torch::autograd::backward({expected * kScale}, {});
    for (size_t i = 0; i < leaves.size(); ++i) EXPECT_LE(relative_difference(leaves[i].grad(), wide[i].grad()), 2e-6);
  }
}

}  // namespace
}  // namespace fathom::ops::experts_test
