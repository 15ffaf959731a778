// aten::mm and aten::addmm of 16 bits on CPUs where fathom multiplies better than LibTorch: in AMX's tiles, or through
// FP32 where the processor has no instructions for them. Whoever multiplies large matrices there, multiplies so. An
// operator of LibTorch stays what is counted, measured and played on the phantom device.
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/amx_threads.h"
#include "ops/widened_product.h"

// The linker is told to look for it, so that the registration below is part of every program that links the room.
extern "C" const char fathom_matrix_product = 0;

namespace fathom::ops {
namespace {

bool are_factors(const at::Tensor& x, const at::Tensor& y) {
  return x.dim() == 2 && y.dim() == 2 && x.layout() == at::kStrided && y.layout() == at::kStrided &&
         x.scalar_type() == y.scalar_type() && x.size(1) == y.size(0);
}

bool is_product(const at::Tensor& out, const at::Tensor& x, const at::Tensor& y) {
  return out.dim() == 2 && out.layout() == at::kStrided && out.scalar_type() == x.scalar_type() &&
         out.size(0) == x.size(0) && out.size(1) == y.size(1);
}

#ifdef FATHOM_AMX

constexpr int64_t kLeastSide = 64;  // narrower ones, as of adapters, are left to oneDNN

bool is_transposed(const at::Tensor& x) { return x.stride(1) != 1; }

// Rows or columns side by side, of numbers without gaps.
bool is_plain(const at::Tensor& x) {
  return x.stride(1) == 1 ? x.stride(0) >= x.size(1) : x.stride(0) == 1 && x.stride(1) >= x.size(0);
}

bool is_large(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 && std::min(x.size(0), x.size(1)) >= kLeastSide && is_plain(x);
}

bool fits_tiles(const at::Tensor& x, const at::Tensor& y) { return is_large(x) && is_large(y) && amx::has_tiles(); }
bool takes_tiles(const at::Tensor& out) { return is_plain(out) && !is_transposed(out); }

cpu::amx::Factor factor_of(const at::Tensor& x) {
  const bool transposed = is_transposed(x);
  return {static_cast<const uint16_t*>(x.const_data_ptr()), x.size(0), x.size(1), x.stride(transposed ? 1 : 0),
          transposed};
}

void multiply_in_tiles(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out) {
  amx::multiply_on_threads(
      cpu::amx::Product{factor_of(x), factor_of(y), static_cast<uint16_t*>(out.data_ptr()), out.stride(0)});
}

#else

bool fits_tiles(const at::Tensor& /*x*/, const at::Tensor& /*y*/) { return false; }
bool takes_tiles(const at::Tensor& /*out*/) { return false; }
void multiply_in_tiles(const at::Tensor& /*x*/, const at::Tensor& /*y*/, const at::Tensor& /*out*/) {}

#endif

// LibTorch multiplies smaller ones by itself, whatever the processor.
bool is_widened(const at::Tensor& x, const at::Tensor& y) {
  constexpr int64_t kLeastProducts = int64_t{16} * 16 * 16;
  return x.size(0) * x.size(1) * y.size(1) > kLeastProducts && widens_products(x.scalar_type());
}

at::Tensor mm(const at::Tensor& x, const at::Tensor& y) {
  const bool factors = are_factors(x, y), tiles = factors && fits_tiles(x, y);
  if (!tiles && !(factors && is_widened(x, y))) return at::cpu::mm(x, y);
  at::Tensor out = at::empty({x.size(0), y.size(1)}, x.options());
  tiles ? multiply_in_tiles(x, y, out) : multiply_widened(x, y, out);
  return out;
}

at::Tensor& mm_out(const at::Tensor& x, const at::Tensor& y, at::Tensor& out) {
  const bool product = are_factors(x, y) && is_product(out, x, y);
  const bool tiles = product && fits_tiles(x, y) && takes_tiles(out);
  if (!tiles && !(product && is_widened(x, y))) return at::cpu::mm_out(out, x, y);
  at::assert_no_overlap(out, x);
  at::assert_no_overlap(out, y);
  tiles ? multiply_in_tiles(x, y, out) : multiply_widened(x, y, out);
  return out;
}

bool is_widened_sum(const at::Tensor& sum, const at::Tensor& x, const at::Tensor& y) {
  return are_factors(x, y) && sum.scalar_type() == x.scalar_type() && is_widened(x, y);
}

at::Tensor addmm(const at::Tensor& sum, const at::Tensor& x, const at::Tensor& y, const at::Scalar& beta,
                 const at::Scalar& alpha) {
  if (!is_widened_sum(sum, x, y)) return at::cpu::addmm(sum, x, y, beta, alpha);
  at::Tensor out = at::empty({x.size(0), y.size(1)}, x.options());
  const at::Tensor expanded = sum.expand(out.sizes());
  multiply_widened(x, y, out, &expanded, beta, alpha);
  return out;
}

at::Tensor& addmm_out(const at::Tensor& sum, const at::Tensor& x, const at::Tensor& y, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out) {
  if (!is_widened_sum(sum, x, y) || !is_product(out, x, y)) return at::cpu::addmm_out(out, sum, x, y, beta, alpha);
  at::assert_no_overlap(out, x);
  at::assert_no_overlap(out, y);
  at::assert_no_partial_overlap(out, sum);
  const at::Tensor expanded = sum.expand(out.sizes());
  multiply_widened(x, y, out, &expanded, beta, alpha);
  return out;
}

at::Tensor& addmm_in_place(at::Tensor& sum, const at::Tensor& x, const at::Tensor& y, const at::Scalar& beta,
                           const at::Scalar& alpha) {
  if (!is_widened_sum(sum, x, y) || !is_product(sum, x, y)) return at::cpu::addmm_(sum, x, y, beta, alpha);
  return addmm_out(sum, x, y, beta, alpha, sum);
}

// LibTorch warns of kernels that take another's place, as these shall.
class Silence final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  library.impl("mm", mm);
  library.impl("mm.out", mm_out);
  library.impl("addmm", addmm);
  library.impl("addmm.out", addmm_out);
  library.impl("addmm_", addmm_in_place);
}

}  // namespace
}  // namespace fathom::ops
