// One input of several linear layers, such as queries, keys and values: what their backward passes do together.
//
// Each layer stays a function of its own to autograd. But what reaches their input is one sum: the layer that runs
// backward first makes it, the others add to it within their products, and no whole gradient is read again to be added
// up. And adapters that read the input as it is multiply it by all their A's as one matrix, forward and backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "ops/autocast.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_input.h"

namespace fathom::ops {

class SharedInput {
 public:
  // needs_gradient: the input. joined: the adapters whose A's multiply as one, as products take them; or none.
  SharedInput(bool needs_gradient, std::vector<LoraAdapter> joined);

  bool needs_gradient() const { return needs_gradient_; }
  // The sum so far; undefined before the first layer made it.
  at::Tensor& gradient_TD() { return gradient_TD_; }

  const std::vector<LoraAdapter>& joined() const { return joined_; }
  // Of an adapter, if its A is joined.
  std::optional<size_t> place_of(const LoraAdapter& adapter) const;
  // All A's, S = R + R + .. rows: as they lie in memory where they do so end to end, else copied.
  at::Tensor a_SD() const;
  // x A^T of the adapter at this place times its scaling, a part of one tensor: [T, R].
  at::Tensor hidden_TR(const at::Tensor& x_TD, size_t place);
  // For the layer at this place to write what reaches its x A^T, before it is scaled: a part of one tensor, [T, R].
  at::Tensor grad_hidden_to_write_TR(const at::Tensor& like_TN, size_t place);
  // All of them, scaled, [T, S]; undefined where none was written, 0 where one was not.
  at::Tensor take_grad_hidden_TS();

 private:
  at::Tensor part(const at::Tensor& all_TS, size_t place) const;

  bool needs_gradient_;
  std::vector<LoraAdapter> joined_;
  at::Tensor gradient_TD_, hidden_TS_, grad_hidden_TS_;
  std::vector<bool> written_;
};

// The input as these layers shall read it, all of them and nobody else: shared where that changes anything.
LinearInput shared(const LinearInput& input, const std::vector<const Linear*>& layers, const ComputeScope& compute,
                   bool training);

}  // namespace fathom::ops
