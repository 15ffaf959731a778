// Sums of products: in place where the hardware multiplies into a wider sum, else by parts of the columns.
#include "ops/head_gradient.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cpu/row_blocks.h"
#include "footprint/loss_chunk.h"
#include "ledger/ledger.h"
#include "ops/matrix_product.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

bool is_narrow(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }

// Columns [first, first + width of the part) of the sum are the part, or grow by it.
void widen_into(const at::Tensor& sum_VD, int64_t first, const at::Tensor& part_VC, bool adds) {
  if (!has_kernel(part_VC)) {
    at::Tensor columns_VC = sum_VD.narrow(1, first, part_VC.size(1));
    if (adds) {
      columns_VC.add_(part_VC);
    } else {
      columns_VC.copy_(part_VC);
    }
    return;
  }
  const int64_t vocabulary = part_VC.size(0), width = sum_VD.size(1), columns = part_VC.size(1);
  const at::Tensor written_VC = sum_VD.narrow(1, first, columns);
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::widen_into",
                                adds ? traffic(part_VC, written_VC, written_VC) : traffic(part_VC, written_VC));
  if (!part_VC.is_cpu()) return;
  float* sum = sum_VD.data_ptr<float>() + first;
  at::parallel_for(0, vocabulary, std::max<int64_t>(1, kElementsPerTask / columns), [&](int64_t begin, int64_t end) {
    std::array<float, footprint::kPartColumns> buffer{};
    for (int64_t row = begin; row < end; ++row) {
      const float* part = cpu::read(rows(part_VC), row * columns, columns, buffer.data());
      float* into = sum + row * width;
      for (int64_t i = 0; i < columns; ++i) into[i] = adds ? into[i] + part[i] : part[i];
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
    const int64_t width = x_CD.size(1);
    for (int64_t first = 0; first < width; first += footprint::kPartColumns) {
      const int64_t columns = std::min(footprint::kPartColumns, width - first);
      widen_into(sum_VD_, first, ops::mm(gradient_VC, x_CD.narrow(1, first, columns).contiguous()), adds);
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
