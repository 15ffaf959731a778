// One expert after the other, so that on a CPU one matrix at a time is dequantized or cast; on a GPU all are at once,
// as every kernel costs a launch. Where there are no numbers, one product of all rows stands for those of the experts:
// it computes as much, and its scratch is no smaller.
#include "ops/grouped_products.h"

#include <ATen/ATen.h>

#include <utility>

#include "ledger/ledger.h"
#include "ops/linear/matrix_product.h"
#include "ops/quantized/quantized_rows.h"

namespace fathom::ops {
namespace {

// Calls body(expert, first row, rows) for every expert.
template <typename Body>
void for_each_expert(const Routes& routes, int64_t rows, const Body& body) {
  if (routes.counts.empty()) {
    for (int64_t expert = 0; expert < routes.experts; ++expert) body(expert, 0, expert == 0 ? rows : 0);
    return;
  }
  int64_t first = 0;
  for (int64_t expert = 0; expert < routes.experts; ++expert) {
    const int64_t count = routes.counts[static_cast<size_t>(expert)];
    body(expert, first, count);
    first += count;
  }
}

// In the type of products.
class Matrices {
 public:
  explicit Matrices(const MatrixStack& stack) : stack_(stack) {
    const bool casts = !stack_.quantized && stack_.stored.scalar_type() != stack_.dtype;
    if (stack_.quantized && stack_.quantized->codes.is_cuda()) {
      all_ = dequantize(*stack_.quantized, stack_.dtype);
    } else if (casts) {
      const ledger::ClaimScope copy_of_weight(memory::Component::kFunctionality);
      const int64_t matrices = stack_.stored.is_cuda() ? stack_.count : 1;
      const at::Tensor copy =
          at::empty({matrices * stack_.out, stack_.in}, stack_.stored.options().dtype(stack_.dtype));
      if (stack_.stored.is_cuda()) all_ = copy.copy_(stack_.stored);
      if (!all_.defined()) one_OI_ = copy;
    } else {
      all_ = stack_.stored;
    }
  }
  // Valid until the next call.
  const at::Tensor& operator[](int64_t expert) {
    const int64_t first = expert * stack_.out;
    if (all_.defined()) {
      matrix_OI_ = all_.narrow(0, first, stack_.out);
    } else if (one_OI_.defined()) {
      matrix_OI_ = one_OI_.copy_(stack_.stored.narrow(0, first, stack_.out));
    } else {
      matrix_OI_.reset();
      matrix_OI_ = dequantize_rows(*stack_.quantized, first, stack_.out, stack_.dtype);
    }
    return matrix_OI_;
  }

 private:
  const MatrixStack& stack_;
  at::Tensor all_, one_OI_, matrix_OI_;
};

}  // namespace

void multiply(const MatrixStack& stack, const Routes& routes, const at::Tensor& x_RI, std::vector<at::Tensor> outs,
              std::optional<double> alpha) {
  const int64_t width = stack.out / std::ssize(outs);
  const bool computes = !routes.counts.empty();
  Matrices matrices(stack);
  for_each_expert(routes, x_RI.size(0), [&](int64_t expert, int64_t first, int64_t count) {
    if (count == 0 && computes) return;
    const at::Tensor& matrix_OI = matrices[expert];
    if (count == 0) return;
    const at::Tensor x_CI = x_RI.narrow(0, first, count);
    for (int64_t part = 0; part < std::ssize(outs); ++part) {
      const at::Tensor weight = matrix_OI.narrow(0, part * width, width).t();
      at::Tensor out = outs[static_cast<size_t>(part)].narrow(0, first, count);
      alpha ? ops::addmm_(out, x_CI, weight, *alpha) : ops::mm_out(out, x_CI, weight);
    }
  });
}

void multiply_back(const MatrixStack& stack, const Routes& routes, const std::vector<at::Tensor>& gs,
                   at::Tensor& out_RI, bool adds) {
  const int64_t width = stack.out / std::ssize(gs);
  const bool computes = !routes.counts.empty();
  Matrices matrices(stack);
  for_each_expert(routes, out_RI.size(0), [&](int64_t expert, int64_t first, int64_t count) {
    if (count == 0 && computes) return;
    const at::Tensor& matrix_OI = matrices[expert];
    if (count == 0) return;
    at::Tensor out_CI = out_RI.narrow(0, first, count);
    for (int64_t part = 0; part < std::ssize(gs); ++part) {
      const at::Tensor weight = matrix_OI.narrow(0, part * width, width);
      const at::Tensor g = gs[static_cast<size_t>(part)].narrow(0, first, count);
      adds || part > 0 ? ops::addmm_(out_CI, g, weight) : ops::mm_out(out_CI, g, weight);
    }
  });
}

at::Tensor gradient_of_stack(const MatrixStack& stack, const Routes& routes, const std::vector<at::Tensor>& gs,
                             const at::Tensor& x_RI, at::ScalarType dtype) {
  const int64_t width = stack.out / std::ssize(gs);
  at::Tensor gradient = at::empty({stack.count * stack.out, stack.in}, x_RI.options().dtype(dtype));
  at::Tensor product;  // before its cast
  if (dtype != x_RI.scalar_type()) product = at::empty({width, stack.in}, x_RI.options());
  for_each_expert(routes, x_RI.size(0), [&](int64_t expert, int64_t first, int64_t count) {
    if (count == 0) {
      gradient.narrow(0, expert * stack.out, stack.out).zero_();
      return;
    }
    const at::Tensor x_CI = x_RI.narrow(0, first, count);
    for (int64_t part = 0; part < std::ssize(gs); ++part) {
      at::Tensor out = gradient.narrow(0, expert * stack.out + part * width, width);
      const at::Tensor g = gs[static_cast<size_t>(part)].narrow(0, first, count);
      ops::mm_out(product.defined() ? product : out, g.t(), x_CI);
      if (product.defined()) out.copy_(product);
    }
  });
  return gradient;
}

}  // namespace fathom::ops
