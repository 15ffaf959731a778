// Sums of products: in place where the hardware multiplies into a wider sum, else by parts of the rows.
#include "ops/head_gradient.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/rounding.h"
#include "cpu/row_blocks.h"
#include "footprint/loss_chunk.h"
#include "ledger/ledger.h"
#include "ops/linear/matrix_product.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

bool is_narrow(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }

// Rows [first, first + rows of the part) of the sum are the part, or grow by it.
void widen_into(const at::Tensor& sum_VD, int64_t first, const at::Tensor& part_CD, bool adds) {
  const at::Tensor written_CD = sum_VD.narrow(0, first, part_CD.size(0));
  if (!has_kernel(part_CD)) {
    adds ? written_CD.add_(part_CD) : written_CD.copy_(part_CD);
    return;
  }
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::widen_into",
                                adds ? traffic(part_CD, written_CD, written_CD) : traffic(part_CD, written_CD));
  if (!part_CD.is_cpu()) return;
  float* sum = written_CD.data_ptr<float>();
  at::parallel_for(0, divide_up(part_CD.numel(), cpu::kBlock), kElementsPerTask / cpu::kBlock,
                   [&](int64_t begin, int64_t end) {
                     std::array<float, cpu::kBlock> buffer{};
                     for (int64_t block = begin; block < end; ++block) {
                       const int64_t at = block * cpu::kBlock, count = std::min(cpu::kBlock, part_CD.numel() - at);
                       const float* part = cpu::read(rows(part_CD), at, count, buffer.data());
                       if (adds) {
                         cpu::accumulate(part, sum + at, count);
                       } else {
                         std::copy_n(part, count, sum + at);
                       }
                     }
                   });
}

}  // namespace

HeadGradient::HeadGradient(const at::Tensor& head_VD, at::ScalarType computed, bool in_one)
    : stored_(head_VD.scalar_type()) {
  const at::ScalarType type = is_narrow(stored_) && (!in_one || computed != stored_) ? at::kFloat : stored_;
  if (type == stored_) {
    const ledger::ClaimScope gradient(memory::Component::kGradients);
    sum_VD_ = at::empty(head_VD.sizes(), head_VD.options());
  } else {
    sum_VD_ = at::empty(head_VD.sizes(), head_VD.options().dtype(type));
  }
}

void HeadGradient::add(const at::Tensor& gradient_CV, const at::Tensor& x_CD) {
  const at::Tensor gradient_VC = gradient_CV.t();
  const bool adds = !std::exchange(empty_, false);
  if (sum_VD_.scalar_type() == x_CD.scalar_type()) {
    adds ? ops::addmm_(sum_VD_, gradient_VC, x_CD) : ops::mm_out(sum_VD_, gradient_VC, x_CD);
  } else if (x_CD.is_cuda()) {
    adds ? at::addmm_out(sum_VD_, sum_VD_, gradient_VC, x_CD, sum_VD_.scalar_type())
         : at::mm_out(sum_VD_, gradient_VC, x_CD, sum_VD_.scalar_type());
  } else {
    const int64_t all = gradient_VC.size(0);
    const int64_t most = footprint::head_gradient_rows(all, x_CD.size(1), x_CD.element_size());
    for (int64_t first = 0; first < all; first += most) {
      const int64_t count = std::min(most, all - first);
      widen_into(sum_VD_, first, ops::mm(gradient_VC.narrow(0, first, count), x_CD), adds);
    }
  }
}

at::Tensor HeadGradient::take() {
  if (empty_) sum_VD_.zero_();
  if (sum_VD_.scalar_type() == stored_) return std::move(sum_VD_);
  const ledger::ClaimScope gradient(memory::Component::kGradients);
  const at::Tensor sum_VD = std::move(sum_VD_);
  return sum_VD.to(stored_);
}

}  // namespace fathom::ops
