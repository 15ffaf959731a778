// Rotary positions: tables made on the host, turned by a kernel, or by ATen's operators where there is none.
#include "ops/rotary.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "ops/cuda_kernels.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

constexpr int64_t kElementsPerTask = 16384;

at::Tensor turn_by_kernel(const at::Tensor& x_BSHE, const at::Tensor& cos_SE2, const at::Tensor& sin_SE2,
                          float direction) {
  at::Tensor out_BSHE = at::empty_like(x_BSHE);
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::rotate", traffic(x_BSHE, out_BSHE));
  const int64_t positions = x_BSHE.size(1), heads = x_BSHE.size(2), head_size = x_BSHE.size(3);
  if (const CudaKernels* cuda = cuda_kernels_for(x_BSHE)) {
    check_launch("rotate", cuda->rotate(rows(x_BSHE), cos_SE2.data_ptr<float>(), sin_SE2.data_ptr<float>(),
                                        rows(out_BSHE), x_BSHE.numel() / head_size, heads, positions, head_size,
                                        direction, current_stream(x_BSHE)));
  }
  if (!x_BSHE.is_cpu()) return out_BSHE;
  at::parallel_for(0, x_BSHE.numel() / head_size, std::max<int64_t>(1, kElementsPerTask / head_size),
                   [&](int64_t first, int64_t last) {
                     cpu::rotate(rows(x_BSHE), cos_SE2.data_ptr<float>(), sin_SE2.data_ptr<float>(), rows(out_BSHE),
                                 heads, positions, head_size, direction, first, last);
                   });
  return out_BSHE;
}

// Writes the halves in place of the output, so that nothing but the output is made. On a GPU these are a third of a
// step's kernels: both halves are multiplied at once, and views are few.
at::Tensor turn_by_operators(const at::Tensor& x_BSHE, const at::Tensor& cos_SE2, const at::Tensor& sin_SE2,
                             double direction) {
  const int64_t half = cos_SE2.size(1);
  const std::array<int64_t, 5> halves{x_BSHE.size(0), x_BSHE.size(1), x_BSHE.size(2), 2, half};
  at::Tensor out_BSHE = at::empty_like(x_BSHE);
  const at::Tensor x_BSH2E2 = x_BSHE.view(halves);
  at::Tensor out_BSH2E2 = out_BSHE.view(halves);
  at::mul_out(out_BSH2E2, x_BSH2E2, cos_SE2.view({-1, 1, 1, half}));
  const at::Tensor sin_S1E2 = sin_SE2.unsqueeze(1);
  out_BSH2E2.select(3, 0).addcmul_(x_BSH2E2.select(3, 1), sin_S1E2, -direction);
  out_BSH2E2.select(3, 1).addcmul_(x_BSH2E2.select(3, 0), sin_S1E2, direction);
  return out_BSHE;
}

at::Tensor turn(const at::Tensor& x_BSHE, const at::Tensor& cos_SE2, const at::Tensor& sin_SE2, int direction) {
  if (has_kernel(x_BSHE) || cuda_kernels_for(x_BSHE) != nullptr)
    return turn_by_kernel(x_BSHE, cos_SE2, sin_SE2, static_cast<float>(direction));
  return turn_by_operators(x_BSHE, cos_SE2, sin_SE2, direction);
}

struct Rotate : torch::autograd::Function<Rotate> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x_BSHE,
                            const at::Tensor& cos_SE2, const at::Tensor& sin_SE2) {
    context->save_for_backward({cos_SE2, sin_SE2});
    return turn(x_BSHE, cos_SE2, sin_SE2, 1);
  }
  // The inverse of a rotation is its transpose: the same turn, backwards.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {turn(gradients[0].contiguous(), saved[0], saved[1], -1), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

RotaryTable::RotaryTable(std::vector<float> frequencies, at::Device device, ledger::Ledger* ledger)
    : frequencies_(std::move(frequencies)), device_(device), ledger_(ledger) {}

void RotaryTable::reserve(int64_t length) {
  if (length > length_) grow(length);
}

std::pair<at::Tensor, at::Tensor> RotaryTable::rows(int64_t first, int64_t count) {
  reserve(first + count);
  return {cos_SE2_.narrow(0, first, count), sin_SE2_.narrow(0, first, count)};
}

void RotaryTable::grow(int64_t length) {
  length_ = std::max<int64_t>(64, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length))));
  const int64_t half = static_cast<int64_t>(frequencies_.size());
  const auto options = at::TensorOptions().device(device_).dtype(at::kFloat);
  for (at::Tensor* table : {&cos_SE2_, &sin_SE2_}) {
    *table = at::Tensor();
    *table = at::empty({length_, half}, options);
    if (ledger_ != nullptr) ledger_->claim(*table, memory::Component::kWeights, "rotary_emb");
  }
  if (device_.is_privateuseone()) return;
  // Angles, then cos and sin are rounded to FP32, as transformers' LlamaRotaryEmbedding does it.
  std::vector<float> cos(length_ * half), sin(length_ * half);
  for (int64_t i = 0; i < half; ++i) {
    for (int64_t position = 0; position < length_; ++position) {
      const float angle = static_cast<float>(position) * frequencies_[i];
      cos[position * half + i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      sin[position * half + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
  const at::NoGradGuard no_gradients;
  cos_SE2_.copy_(at::from_blob(cos.data(), {length_, half}, at::kFloat));
  sin_SE2_.copy_(at::from_blob(sin.data(), {length_, half}, at::kFloat));
}

at::Tensor rotate(const at::Tensor& x_BSHE, const at::Tensor& cos_SE2, const at::Tensor& sin_SE2) {
  return Rotate::apply(x_BSHE, cos_SE2, sin_SE2);
}

}  // namespace fathom::ops
