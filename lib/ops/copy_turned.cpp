// The side that LibTorch would make contiguous first is taken as it lies.
#include "ops/copy_turned.h"

namespace fathom::ops {
namespace {

bool is_turned(const at::Tensor& x) {
  return x.dim() >= 2 && !x.is_contiguous() && x.transpose(-1, -2).is_contiguous();
}

}  // namespace

void copy_turned(const at::Tensor& to, const at::Tensor& from) {
  if (is_turned(to.is_cpu() ? from : to)) {
    to.transpose(-1, -2).copy_(from.transpose(-1, -2));
  } else {
    to.copy_(from);
  }
}

}  // namespace fathom::ops
