// Memory is asked for in the order of LibTorch 2.11: ATen/native/cudnn/MHA.cpp and transformers/cuda/attention.cu.
#include "ledger/cuda/cudnn_attention.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <tuple>

#include "footprint/cudnn_workspace.h"

namespace fathom::ledger {
namespace {

using Launched = void();

Launched* launched() { return reinterpret_cast<Launched*>(dlsym(RTLD_DEFAULT, "phantom_launched")); }

// What is given to the device: so many kernels and fills, as a profile counted them, with the memory that they share.
void play(int64_t scratch_bytes, int launches) {
  const auto scratch = c10::cuda::CUDACachingAllocator::get()->allocate(static_cast<size_t>(scratch_bytes));
  static Launched* const tell = launched();
  for (int i = 0; i < launches; ++i) tell();
}

using Forward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor,
                           at::Tensor, at::Tensor>;

Forward forward(const at::Tensor& q_BHSE, const at::Tensor& k_BKSE, const at::Tensor& /*values*/,
                const std::optional<at::Tensor>& /*bias*/, bool keeps_sums, double /*dropout*/, bool /*causal*/,
                bool /*debugs*/, std::optional<double> /*scale*/) {
  const at::Tensor seed = at::empty({}, q_BHSE.options().dtype(at::kLong)), offset = at::empty_like(seed);
  const at::Tensor out_BHSE = at::empty_like(q_BHSE);
  at::Tensor sums_BHS;
  if (keeps_sums) sums_BHS = at::empty(q_BHSE.sizes().slice(0, 3), q_BHSE.options().dtype(at::kFloat));
  if (q_BHSE.numel() > 0) play(footprint::kCudnnWorkspace, 1);
  return {out_BHSE, sums_BHS, {}, {}, q_BHSE.size(2), k_BKSE.size(2), seed, offset, {}};
}

// NOLINTBEGIN(performance-unnecessary-value-param): the operator's own types.
std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(
    const at::Tensor& /*gradient*/, const at::Tensor& q_BHSE, const at::Tensor& k_BKSE, const at::Tensor& v_BKSE,
    const at::Tensor& /*out*/, const at::Tensor& /*sums*/, const at::Tensor& /*seed*/, const at::Tensor& /*offset*/,
    const at::Tensor& /*bias*/, const at::Tensor& /*queries' borders*/, const at::Tensor& /*keys' borders*/,
    c10::SymInt /*longest_q*/, c10::SymInt /*longest_k*/, double /*dropout*/, bool /*causal*/,
    std::optional<double> /*scale*/) {
  // NOLINTEND(performance-unnecessary-value-param)
  const at::Tensor q = at::empty_like(q_BHSE), k = at::empty_like(k_BKSE), v = at::empty_like(v_BKSE);
  const int64_t heads = q_BHSE.size(1);
  const footprint::CudnnWorkspace sizes{q_BHSE.size(0) * q_BHSE.size(2), heads, q_BHSE.size(3), q_BHSE.element_size(),
                                        heads != k_BKSE.size(1)};
  if (q_BHSE.numel() > 0) play(footprint::kCudnnWorkspace + sizes.backward_bytes(), heads != k_BKSE.size(1) ? 7 : 5);
  return {q, k, v};
}

// LibTorch warns of kernels that take the place of others.
struct Silence final : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

}  // namespace

void play_cudnn_attention() {
  if (launched() == nullptr) return;
  static const torch::Library library = [] {
    Silence silence;
    const c10::WarningUtils::WarningHandlerGuard guard(&silence);
    torch::Library made(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    made.impl("_scaled_dot_product_cudnn_attention", &forward);
    made.impl("_scaled_dot_product_cudnn_attention_backward", &backward);
    return made;
  }();
}

}  // namespace fathom::ledger
