// The side that LibTorch would make contiguous first is taken as it lies.
#include "ops/copy_turned.h"

namespace fathom::ops {
namespace {

bool is_turned(const at::Tensor& x) { return x.dim() == 2 && !x.is_contiguous() && x.t().is_contiguous(); }

}  // namespace

void copy_turned(const at::Tensor& to, const at::Tensor& from) {
  if (is_turned(to.is_cpu() ? from : to)) {
    to.t().copy_(from.t());
  } else {
    to.copy_(from);
  }
}

}  // namespace fathom::ops
