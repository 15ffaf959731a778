// By ATen's operators one tap after the other, of all texts at once.
#include "ops/text_convolution.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

// Rows that have another of the same text `back` rows before them, and those before: of all texts at once.
class Shift {
 public:
  Shift(const Texts& texts, int64_t back) : texts_(texts), back_(back) {}
  at::Tensor later(const at::Tensor& x_TD) const { return rows_of(x_TD, back_); }
  at::Tensor earlier(const at::Tensor& x_TD) const { return rows_of(x_TD, 0); }
  bool is_empty(const at::Tensor& x_TD) const { return length(x_TD) <= back_; }
  // Nothing of rows that have no such row in their text.
  at::Tensor masked(const at::Tensor& x) const {
    if (back_ == 0 || !texts_.positions_T.defined()) return x;
    const at::Tensor positions_T = texts_.positions_T.narrow(0, back_, texts_.positions_T.size(0) - back_);
    return x * positions_T.ge(back_).view({1, -1, 1});
  }

 private:
  int64_t length(const at::Tensor& x_TD) const { return texts_.positions_T.defined() ? x_TD.size(0) : texts_.length; }
  at::Tensor rows_of(const at::Tensor& x_TD, int64_t first) const {
    return x_TD.unflatten(0, {-1, length(x_TD)}).narrow(1, first, length(x_TD) - back_);
  }

  const Texts& texts_;
  int64_t back_;
};

}  // namespace

at::Tensor convolved(const at::Tensor& made_TD, const at::Tensor& taps_DJ, const Texts& texts, bool backward) {
  const int64_t count = taps_DJ.size(1);
  at::Tensor sum_TD = at::empty_like(made_TD);
  at::mul_out(sum_TD, made_TD, taps_DJ.select(1, count - 1));
  for (int64_t back = 1; back < count; ++back) {
    const Shift shift(texts, back);
    if (shift.is_empty(made_TD)) break;
    const at::Tensor from = shift.masked(backward ? shift.later(made_TD) : shift.earlier(made_TD));
    at::Tensor to = backward ? shift.earlier(sum_TD) : shift.later(sum_TD);
    to.addcmul_(from, taps_DJ.select(1, count - 1 - back));
  }
  return sum_TD;
}

void gradient_of_taps(const at::Tensor& of_sum_TD, const at::Tensor& made_TD, const Texts& texts,
                      const at::Tensor& grad_taps_DJ) {
  const int64_t count = grad_taps_DJ.size(1);
  for (int64_t back = 0; back < count; ++back) {
    const Shift shift(texts, back);
    at::Tensor of_tap_D = grad_taps_DJ.select(1, count - 1 - back);
    if (shift.is_empty(made_TD)) {
      of_tap_D.zero_();
      continue;
    }
    const at::Tensor of_rows = shift.masked(shift.later(of_sum_TD) * shift.earlier(made_TD));
    const at::ScalarType type = of_rows.is_cuda() ? at::kFloat : of_rows.scalar_type();
    of_tap_D.copy_(of_rows.sum(at::IntArrayRef{0, 1}, /*keepdim=*/false, type));
  }
}

at::Tensor silu_convolution(const at::Tensor& x_TD, const at::Tensor& taps_DJ, const Texts& texts) {
  if (!has_kernel(x_TD) || !has_kernel(taps_DJ)) {
    at::Tensor sum_TD = convolved(x_TD, taps_DJ, texts);
    return at::silu_(sum_TD);
  }
  const int64_t tokens = x_TD.size(0), width = x_TD.size(1);
  at::Tensor out_TD = at::empty_like(x_TD);
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::silu_convolution", traffic(x_TD, taps_DJ, out_TD));
  if (!x_TD.is_cpu()) return out_TD;
  at::parallel_for(0, tokens, std::max<int64_t>(1, kElementsPerTask / width), [&](int64_t first, int64_t last) {
    cpu::silu_convolution(rows(x_TD), {rows(taps_DJ), taps_DJ.size(1)}, texts.on_cpu(), rows(out_TD), first, last,
                          width);
  });
  return out_TD;
}

// Threads of the kernel have columns, so that the sums over rows are the same however many there are.
at::Tensor silu_convolution_backward(const at::Tensor& grad_TD, const at::Tensor& x_TD, const at::Tensor& taps_DJ,
                                     const Texts& texts, const at::Tensor& grad_taps_DJ) {
  if (!has_kernel(x_TD) || !has_kernel(taps_DJ)) {
    const at::Tensor of_sum_TD = at::silu_backward(grad_TD, convolved(x_TD, taps_DJ, texts));
    if (grad_taps_DJ.defined()) gradient_of_taps(of_sum_TD, x_TD, texts, grad_taps_DJ);
    return convolved(of_sum_TD, taps_DJ, texts, /*backward=*/true);
  }
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::silu_convolution_backward", traffic(grad_TD, x_TD, taps_DJ, grad_TD));
  if (!x_TD.is_cpu()) return grad_TD;
  const int64_t tokens = x_TD.size(0), width = x_TD.size(1);
  std::vector<float> of_taps(grad_taps_DJ.defined() ? static_cast<size_t>(taps_DJ.numel()) : 0);
  float* sums = of_taps.empty() ? nullptr : of_taps.data();
  at::parallel_for(0, width, std::max<int64_t>(1, kElementsPerTask / tokens), [&](int64_t first, int64_t last) {
    cpu::silu_convolution_backward(rows(grad_TD), rows(x_TD), {rows(taps_DJ), taps_DJ.size(1)}, texts.on_cpu(),
                                   rows(grad_TD), sums, tokens, first, last, width);
  });
  if (sums != nullptr) cpu::convert({sums, cpu::RowType::kF32}, rows(grad_taps_DJ), 0, taps_DJ.numel());
  return grad_TD;
}

}  // namespace fathom::ops
