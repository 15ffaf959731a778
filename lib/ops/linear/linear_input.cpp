// Inputs that are kept, or computed again when the first of their layers asks.
#include "ops/linear/linear_input.h"

#include <ATen/ATen.h>

#include <utility>

namespace fathom::ops {

const at::Tensor& KeptInput::as(at::ScalarType dtype) {
  if (!made_TD_.defined() || made_TD_.scalar_type() != dtype) {
    made_TD_.reset();
    made_TD_ = make_().to(dtype);
  }
  return made_TD_;
}

void KeptInput::meet(const at::Tensor& grad_TD) {
  make_ = [x_TD = std::exchange(meet_, nullptr)(grad_TD)] { return x_TD; };
}

LinearInput::LinearInput(at::Tensor x_TD)
    : x_TD_(std::move(x_TD)), kept_(std::make_shared<KeptInput>([x_TD = x_TD_.detach()] { return x_TD; })) {}

LinearInput::LinearInput(at::Tensor x_TD, std::function<at::Tensor()> again, KeptInput::Meeting meet)
    : LinearInput(std::move(x_TD)) {
  if (x_TD_.requires_grad()) kept_ = std::make_shared<KeptInput>(std::move(again), std::move(meet));
}

const at::Tensor& LinearInput::as(at::ScalarType dtype) const {
  if (x_TD_.scalar_type() == dtype) return x_TD_;
  if (!cast_TD_.defined() || cast_TD_.scalar_type() != dtype) cast_TD_ = x_TD_.detach().to(dtype);
  return cast_TD_;
}

const Int8Rows& LinearInput::int8_rows() const {
  if (!int8_rows_) int8_rows_ = quantize_rows(x_TD_);
  return *int8_rows_;
}

const Fp8Rows& LinearInput::fp8_rows() const {
  if (!fp8_rows_) fp8_rows_ = quantize_rows_to_fp8(x_TD_.detach(), at::kFloat8_e4m3fn);
  return *fp8_rows_;
}

LinearInput LinearInput::shared_as(at::Tensor x_TD, std::shared_ptr<SharedInput> shared) const {
  LinearInput input = *this;
  input.x_TD_ = std::move(x_TD);
  input.shared_ = std::move(shared);
  return input;
}

}  // namespace fathom::ops
