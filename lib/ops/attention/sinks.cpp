// One kernel on CPUs, ATen's operators elsewhere.
#include "ops/attention/sinks.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "cpu/attention_sinks.h"
#include "ops/partial_sums.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

bool have_sink_kernel(const at::Tensor& out_THE, const at::Tensor& logsumexp_TH, const at::Tensor& sinks_H) {
  return has_kernel(out_THE) && has_kernel(sinks_H) && out_THE.is_contiguous() && logsumexp_TH.is_contiguous() &&
         logsumexp_TH.scalar_type() == at::kFloat;
}

cpu::SinkRows sink_rows(const at::Tensor& out_THE, const at::Tensor& sinks_H) {
  return {rows(sinks_H), sinks_H.size(0), out_THE.size(-1)};
}

}  // namespace

void add_sinks(const at::Tensor& out_THE, const at::Tensor& logsumexp_TH, const at::Tensor& sinks_H) {
  if (!have_sink_kernel(out_THE, logsumexp_TH, sinks_H)) {
    const at::Tensor joined_TH = at::logaddexp(logsumexp_TH, sinks_H.to(logsumexp_TH.scalar_type()));
    out_THE.mul_((logsumexp_TH - joined_TH).exp_().unsqueeze(-1));
    logsumexp_TH.copy_(joined_TH);
    return;
  }
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::add_sinks", traffic(out_THE, out_THE, logsumexp_TH, logsumexp_TH));
  if (!out_THE.is_cpu()) return;
  const int64_t grain = std::max<int64_t>(1, kElementsPerTask / out_THE.size(-1));
  at::parallel_for(0, logsumexp_TH.numel(), grain, [&](int64_t first, int64_t last) {
    cpu::add_sinks(rows(out_THE), logsumexp_TH.mutable_data_ptr<float>(), sink_rows(out_THE, sinks_H), first, last);
  });
}

at::Tensor gradient_of_sinks(const at::Tensor& grad_out_THE, const at::Tensor& out_THE, const at::Tensor& logsumexp_TH,
                             const at::Tensor& sinks_H) {
  if (!have_sink_kernel(out_THE, logsumexp_TH, sinks_H)) {
    const at::ScalarType type = logsumexp_TH.scalar_type();
    const at::Tensor sums_TH = (grad_out_THE * out_THE).sum(at::OptionalIntArrayRef({-1}), /*keepdim=*/false, type);
    const at::Tensor shares_TH = (sinks_H.to(type) - logsumexp_TH).exp_();
    std::vector<int64_t> queries(static_cast<size_t>(shares_TH.dim() - 1));
    std::iota(queries.begin(), queries.end(), 0);
    return shares_TH.mul_(sums_TH).sum(queries).neg_().to(sinks_H.scalar_type());
  }
  const at::Tensor grad_THE = grad_out_THE.contiguous();
  at::Tensor grad_sinks_H = at::empty_like(sinks_H);
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::gradient_of_sinks", traffic(grad_THE, out_THE, logsumexp_TH, grad_sinks_H));
  if (!out_THE.is_cpu()) return grad_sinks_H;
  const int64_t heads = sinks_H.size(0), tokens = logsumexp_TH.numel() / heads;
  const int64_t shares = std::min<int64_t>(at::get_num_threads(), tokens);
  PartialSums sums(/*wanted=*/true, shares, heads);
  at::parallel_for(0, shares, 1, [&](int64_t first, int64_t last) {
    for (int64_t share = first; share < last; ++share) {
      cpu::sinks_backward(rows(grad_THE), rows(out_THE), logsumexp_TH.const_data_ptr<float>(),
                          sink_rows(out_THE, sinks_H), sums.share(share), tokens * share / shares * heads,
                          tokens * (share + 1) / shares * heads);
    }
  });
  sums.add_up_into(grad_sinks_H);
  return grad_sinks_H;
}

}  // namespace fathom::ops
