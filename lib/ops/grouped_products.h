// Products of rows that are sorted by expert with the matrices of these experts, each expert's with its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "ops/quantized/quantized_matrix.h"
#include "ops/routing.h"

namespace fathom::ops {

// N matrices [O, I], one below the other.
struct MatrixStack {
  int64_t count = 0, out = 0, in = 0;  // N, O, I
  at::Tensor stored = {};              // [N * O, I]; undefined: quantized
  std::optional<QuantizedMatrix> quantized = std::nullopt;
  at::ScalarType dtype = at::kFloat;  // of products: no copy of more than one matrix in another type is there
};

// x W^T, in as many matrices of equal width as `outs`, [R, O / outs] each: the first takes the first rows of each W.
// alpha: set, alpha times the product is added to what is there.
void multiply(const MatrixStack& stack, const Routes& routes, const at::Tensor& x_RI, std::vector<at::Tensor> outs,
              std::optional<double> alpha = std::nullopt);

// The sum of g W over the parts of W that the gs, [R, O / gs] each, belong to. adds: to what is there.
void multiply_back(const MatrixStack& stack, const Routes& routes, const std::vector<at::Tensor>& gs,
                   at::Tensor& out_RI, bool adds = false);

// g^T x of each expert, [N * O, I] in `dtype`; zeros for an expert without rows.
at::Tensor gradient_of_stack(const MatrixStack& stack, const Routes& routes, const std::vector<at::Tensor>& gs,
                             const at::Tensor& x_RI, at::ScalarType dtype);

}  // namespace fathom::ops
