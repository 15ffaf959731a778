// What linear layers read, and how their backward passes get it again.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>

#include "ops/quantized/fp8_rows.h"
#include "ops/quantized/int8_rows.h"

namespace fathom::ops {

// The input of several layers, as their backward passes ask for it. Whoever needs it holds it by a shared pointer; with
// the last one goes what it keeps.
class KeptInput {
 public:
  // Of an input whose gradient is made by one layer alone: x, written over that gradient, which the caller keeps no
  // other use of.
  using Meeting = std::function<at::Tensor(const at::Tensor& grad_TD)>;
  explicit KeptInput(std::function<at::Tensor()> make, Meeting meet = {})
      : make_(std::move(make)), meet_(std::move(meet)) {}
  // Made at the first call, and again where the next asks for another type.
  const at::Tensor& as(at::ScalarType dtype);
  // Whether who made x would rather make it again together with what its own backward pass makes of the gradient.
  bool meets_gradient() const { return meet_ != nullptr; }
  // Before `as`: grad_TD becomes x, and is to be handed on to autograd as if it were the gradient still.
  void meet(const at::Tensor& grad_TD);

 private:
  std::function<at::Tensor()> make_;
  Meeting meet_;
  at::Tensor made_TD_;
};

class SharedInput;

class LinearInput {
 public:
  // A layer that needs x_TD in its backward pass keeps it.
  explicit LinearInput(at::Tensor x_TD);
  // A layer that needs x_TD calls `again` instead, which computes it from tensors that its operator keeps anyway, bit
  // for bit, and holds no graph: a detached tensor, not the variable. Where x_TD needs no gradient its operator keeps
  // nothing, and x_TD itself is kept.
  LinearInput(at::Tensor x_TD, std::function<at::Tensor()> again, KeptInput::Meeting meet = {});

  const at::Tensor& tensor() const { return x_TD_; }
  // Under LoRA without autocast several layers share one cast to the adapters' type.
  const at::Tensor& as(at::ScalarType dtype) const;
  // Its rows in INT8, made once for all layers that read this object.
  const Int8Rows& int8_rows() const;
  const Fp8Rows& fp8_rows() const;  // the same in E4M3
  const std::shared_ptr<KeptInput>& kept() const { return kept_; }

  // The same under another variable, whose gradient its layers make together (ops/linear/shared_input.h).
  LinearInput shared_as(at::Tensor x_TD, std::shared_ptr<SharedInput> shared) const;
  const std::shared_ptr<SharedInput>& shared() const { return shared_; }  // null: each layer makes its own

 private:
  at::Tensor x_TD_;
  mutable at::Tensor cast_TD_;
  mutable std::optional<Int8Rows> int8_rows_;
  mutable std::optional<Fp8Rows> fp8_rows_;
  std::shared_ptr<KeptInput> kept_;
  std::shared_ptr<SharedInput> shared_;
};

}  // namespace fathom::ops
