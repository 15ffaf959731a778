// The router's softmax and choice as an autograd function; rows sorted on the host on CPUs, by ATen's operators on
// GPUs.
#include "ops/routing.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "cpu/routed_rows.h"
#include "ops/linear/matrix_product.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Choice : torch::CustomClassHolder {
  Router router;
  std::shared_ptr<Balance> balance;
  at::Tensor corrections_N, scores_TN, chosen_TK;
};

// Leaves what lies in open groups as it is, and makes all else -inf.
void close_groups(const at::Tensor& by_TN, const RouterScores& scores) {
  const at::Tensor by_TGM = by_TN.view({by_TN.size(0), scores.groups, -1});
  const at::Tensor sums_TG = std::get<0>(at::topk(by_TGM, std::min<int64_t>(2, by_TGM.size(2)))).sum(-1);
  const at::Tensor open_TO = std::get<1>(at::topk(sums_TG, scores.open_groups));
  const at::Tensor closed_TG = at::ones_like(sums_TG, at::kBool).scatter_(1, open_TO, 0);
  by_TGM.masked_fill_(closed_TG.unsqueeze(-1), -std::numeric_limits<double>::infinity());
}

// What experts are chosen by.
at::Tensor corrected(const Choice& choice) {
  const RouterScores& rule = choice.router.scores;
  if (!rule.corrected && rule.groups == 1) return choice.scores_TN;
  at::Tensor by_TN = rule.corrected ? choice.scores_TN + choice.corrections_N : choice.scores_TN.clone();
  if (rule.groups > 1) close_groups(by_TN, rule);
  return by_TN;
}

// Sigmoids may all be 0.
at::Tensor sum_of_chosen(const at::Tensor& scores_TK, const RouterScores& rule) {
  const at::Tensor sum_T1 = scores_TK.sum(-1, /*keepdim=*/true);
  return rule.sigmoid ? sum_T1.add_(1e-20) : sum_T1;
}

struct Route : torch::autograd::Function<Route> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits_TN,
                            const c10::intrusive_ptr<Choice>& choice) {
    const Router& router = choice->router;
    const at::Tensor in_fp32_TN = logits_TN.to(at::kFloat);
    choice->scores_TN = router.scores.sigmoid ? at::sigmoid(in_fp32_TN) : at::_softmax(in_fp32_TN, -1, false);
    at::Tensor weights_TK;
    std::tie(weights_TK, choice->chosen_TK) = at::topk(corrected(*choice), router.per_token);
    if (router.scores.corrected) weights_TK = choice->scores_TN.gather(1, choice->chosen_TK);
    if (router.normalised) weights_TK.div_(sum_of_chosen(weights_TK, router.scores));
    if (router.scores.scale != 1) weights_TK.mul_(router.scores.scale);
    if (choice->balance) choice->balance->add(choice->scores_TN, choice->chosen_TK);
    context->saved_data["choice"] = c10::IValue::make_capsule(choice);
    context->saved_data["dtype"] = static_cast<int64_t>(logits_TN.scalar_type());
    return weights_TK;
  }

  // With p the scores and s the sum of the chosen ones: of w = c p / s it is c (g - sum(g p / s)) / s.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto choice = c10::static_intrusive_pointer_cast<Choice>(context->saved_data["choice"].toCapsule());
    const Router& router = choice->router;
    const at::Tensor &p_TN = choice->scores_TN, &chosen_TK = choice->chosen_TK;
    at::Tensor grad_TK = gradients[0];
    if (router.scores.scale != 1) grad_TK = grad_TK * router.scores.scale;
    if (router.normalised) {
      const at::Tensor p_TK = p_TN.gather(1, chosen_TK);
      const at::Tensor sum_T1 = sum_of_chosen(p_TK, router.scores);
      grad_TK = (grad_TK - (grad_TK * p_TK).sum(-1, /*keepdim=*/true).div_(sum_T1)).div_(sum_T1);
    }
    at::Tensor grad_TN = at::zeros_like(p_TN);
    if (choice->balance) grad_TN.add_(choice->balance->gradient_TN());
    grad_TN.scatter_add_(1, chosen_TK, grad_TK);
    const auto dtype = static_cast<at::ScalarType>(context->saved_data["dtype"].toInt());
    const at::Tensor grad_logits_TN = router.scores.sigmoid ? at::sigmoid_backward(grad_TN, p_TN)
                                                            : at::_softmax_backward_data(grad_TN, p_TN, -1, at::kFloat);
    return {grad_logits_TN.to(dtype), at::Tensor()};
  }
};

void sort_on_cpu(const at::Tensor& chosen_TK, Routes& routes) {
  routes.counts.resize(static_cast<size_t>(routes.experts));
  const at::Tensor chosen = chosen_TK.contiguous();
  cpu::sort_by_expert(chosen.const_data_ptr<int64_t>(), chosen.numel(), routes.experts,
                      routes.pairs_R.mutable_data_ptr<int32_t>(), routes.rows_P.mutable_data_ptr<int32_t>(),
                      routes.counts.data());
}

// Where the rows of each expert end, on the host, which waits for it; nothing where they do not end with the last row:
// a phantom GPU has no numbers.
std::vector<int64_t> counts_of(const at::Tensor& ends_N, int64_t rows) {
  const at::Tensor ends = ends_N.to(at::kCPU, at::kLong);
  std::vector<int64_t> counts(ends.const_data_ptr<int64_t>(), ends.const_data_ptr<int64_t>() + ends.numel());
  if (counts.back() != rows) return {};
  std::adjacent_difference(counts.begin(), counts.end(), counts.begin());
  return counts;
}

void sort_on_gpu(const at::Tensor& chosen_TK, Routes& routes) {
  const auto [experts_R, pairs_R] = at::sort(chosen_TK.reshape({-1}), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  routes.pairs_R.copy_(pairs_R);
  routes.rows_P.scatter_(0, pairs_R, at::arange(pairs_R.size(0), routes.rows_P.options()));
  const at::Tensor next_N = at::arange(1, routes.experts + 1, experts_R.options());
  routes.counts = counts_of(at::searchsorted(experts_R, next_N), pairs_R.size(0));
}

// What there is of each row, as weights_TK are ordered.
at::Tensor of_tokens(const at::Tensor& x_R, const Routes& routes) {
  return x_R.index_select(0, routes.rows_P).view({-1, routes.per_token});
}

}  // namespace

Routes route(const at::Tensor& logits_TN, const Router& router, const at::Tensor& corrections_N,
             std::shared_ptr<Balance> balance) {
  auto choice = c10::make_intrusive<Choice>();
  choice->router = router;
  choice->corrections_N = corrections_N;
  choice->balance = std::move(balance);
  Routes routes;
  routes.experts = router.experts;
  routes.per_token = router.per_token;
  routes.weights_TK = Route::apply(logits_TN, choice);
  const int64_t rows = routes.weights_TK.numel();
  const auto options = logits_TN.options().dtype(at::kInt);
  routes.pairs_R = at::empty({rows}, options);
  routes.rows_P = at::empty({rows}, options);
  if (logits_TN.is_cpu()) sort_on_cpu(choice->chosen_TK, routes);
  if (logits_TN.is_cuda()) sort_on_gpu(choice->chosen_TK, routes);
  routes.tokens_R = at::div(routes.pairs_R, router.per_token, "floor");
  if (router.biased_experts) routes.experts_R = choice->chosen_TK.view({-1}).index_select(0, routes.pairs_R);
  return routes;
}

at::Tensor sum_of_rows(const at::Tensor& x_RD, const Routes& routes) {
  const int64_t per_token = routes.per_token, tokens = x_RD.size(0) / per_token, width = x_RD.size(1);
  if (!has_kernel(x_RD)) return x_RD.index_select(0, routes.rows_P).view({tokens, per_token, width}).sum(1);
  at::Tensor out_TD = at::empty({tokens, width}, x_RD.options());
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::sum_of_rows", traffic(x_RD, out_TD));
  if (x_RD.is_cpu()) {
    const auto* row_of = routes.rows_P.const_data_ptr<int32_t>();
    const int64_t grain = std::max<int64_t>(1, kElementsPerTask / (width * per_token));
    at::parallel_for(0, tokens, grain, [&](int64_t first, int64_t last) {
      cpu::sum_rows(rows(x_RD), row_of, per_token, rows(out_TD), first, last, width);
    });
  }
  return out_TD;
}

at::Tensor products_of_rows(const at::Tensor& x_RF, const at::Tensor& y_RF, const Routes& routes) {
  at::Tensor sums_R;
  if (has_kernel(x_RF)) {
    const int64_t width = x_RF.size(1);
    sums_R = at::empty({x_RF.size(0)}, x_RF.options().dtype(at::kFloat));
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::products_of_rows", traffic(x_RF, y_RF));
    if (x_RF.is_cpu()) {
      auto* sums = sums_R.mutable_data_ptr<float>();
      at::parallel_for(
          0, x_RF.size(0), std::max<int64_t>(1, kElementsPerTask / width),
          [&](int64_t first, int64_t last) { cpu::dot_rows(rows(x_RF), rows(y_RF), sums, first, last, width); });
    }
  } else {
    sums_R = (x_RF * y_RF).sum(1, /*keepdim=*/false, at::kFloat);
  }
  return of_tokens(sums_R, routes);
}

at::Tensor weights_of_rows(const Routes& routes, at::ScalarType dtype) {
  return routes.weights_TK.detach().view({-1}).index_select(0, routes.pairs_R).to(dtype).unsqueeze(1);
}

at::Tensor choices_of_rows(const Routes& routes, at::ScalarType dtype, bool weighed) {
  const at::Tensor experts_R1 = routes.experts_R.unsqueeze(1);
  at::Tensor choices_RN = at::zeros({experts_R1.size(0), routes.experts}, routes.weights_TK.options().dtype(dtype));
  if (!weighed) return choices_RN.scatter_(1, experts_R1, 1);
  return choices_RN.scatter_(1, experts_R1, weights_of_rows(routes, dtype));
}

at::Tensor products_with_biases(const at::Tensor& x_RD, const at::Tensor& biases_ND, const Routes& routes) {
  const at::Tensor all_RN = ops::mm(x_RD, biases_ND.t());
  return of_tokens(all_RN.gather(1, routes.experts_R.unsqueeze(1)).to(at::kFloat).view({-1}), routes);
}

}  // namespace fathom::ops
