// Which experts each token goes to, with which weight, and where its rows lie once they are sorted by expert.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "base/router_scores.h"
#include "ops/balance.h"

namespace fathom::ops {

// The pairs of T tokens and their K experts as R = T * K rows, sorted by expert, those of one expert by token. All
// shapes are the same whatever a router chose.
struct Routes {
  int64_t experts = 0, per_token = 0;  // N, K
  at::Tensor weights_TK;               // FP32, with a gradient
  at::Tensor pairs_R, tokens_R;        // int32: of each row its pair t * K + k, and t
  at::Tensor rows_P;                   // int32: of each pair its row
  at::Tensor experts_R;                // int64: of each row its expert; undefined where no expert adds biases
  // Of each expert's rows, for which the host waits; empty on a phantom, which has no numbers.
  std::vector<int64_t> counts;
};

struct Router {
  int64_t experts = 0, per_token = 0;
  bool normalised = false;
  bool biased_experts = false;  // Routes::experts_R is wanted
  RouterScores scores = {};
};

// Scores of the experts in FP32, of which the largest K are the weights, as they are or divided by their sum. Keeps the
// scores and the choice for the backward pass. corrections_N: FP32, where scores are corrected. balance: may be null,
// and is where scores are no softmax.
Routes route(const at::Tensor& logits_TN, const Router& router, const at::Tensor& corrections_N,
             std::shared_ptr<Balance> balance);

// Of the rows of a sorted matrix, [R, D], the sum over those of each token, in the order of its experts: [T, D].
at::Tensor sum_of_rows(const at::Tensor& x_RD, const Routes& routes);

// Of each row of both, the sum of x * y, in FP32, as weights_TK are ordered: [T, K].
at::Tensor products_of_rows(const at::Tensor& x_RF, const at::Tensor& y_RF, const Routes& routes);

// The weight of each row, [R, 1] in this type.
at::Tensor weights_of_rows(const Routes& routes, at::ScalarType dtype);

// [R, N] in this type: in each row 1, or its weight, in the column of its expert, and zeros. Times the biases of
// experts, [N, O], it is what each row gets of them; turned, times the gradients of rows, [R, O], it is that of the
// biases. With experts_R.
at::Tensor choices_of_rows(const Routes& routes, at::ScalarType dtype, bool weighed);

// Of each row of x and the bias of its expert, the sum of x * bias, in FP32, as weights_TK are ordered: [T, K]. With
// experts_R.
at::Tensor products_with_biases(const at::Tensor& x_RD, const at::Tensor& biases_ND, const Routes& routes);

}  // namespace fathom::ops
