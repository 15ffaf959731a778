// aten::mm of BF16 on CPUs with AMX, in place of LibTorch's: whoever multiplies large matrices there, multiplies so. An
// operator of LibTorch stays what is counted, measured and played on the phantom device.
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/amx_threads.h"

// The linker is told to look for it, so that the registration below is part of every program that links the room.
extern "C" const char fathom_matrix_product = 0;

#ifdef FATHOM_AMX

namespace fathom::ops {
namespace {

constexpr int64_t kLeastSide = 64;  // narrower ones, as of adapters, are left to oneDNN

bool is_transposed(const at::Tensor& x) { return x.stride(1) != 1; }

// Rows or columns side by side, of numbers without gaps.
bool is_plain(const at::Tensor& x) {
  return x.stride(1) == 1 ? x.stride(0) >= x.size(1) : x.stride(0) == 1 && x.stride(1) >= x.size(0);
}

bool is_large(const at::Tensor& x) {
  return x.dim() == 2 && x.layout() == at::kStrided && x.scalar_type() == at::kBFloat16 &&
         std::min(x.size(0), x.size(1)) >= kLeastSide && is_plain(x);
}

bool fits_tiles(const at::Tensor& x, const at::Tensor& y) {
  return is_large(x) && is_large(y) && x.size(1) == y.size(0) && amx::has_tiles();
}

amx::Factor factor_of(const at::Tensor& x) {
  const bool transposed = is_transposed(x);
  return {static_cast<const uint16_t*>(x.const_data_ptr()), x.size(0), x.size(1), x.stride(transposed ? 1 : 0),
          transposed};
}

void multiply(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out) {
  amx::multiply_on_threads(
      amx::Product{factor_of(x), factor_of(y), static_cast<uint16_t*>(out.data_ptr()), out.stride(0)});
}

at::Tensor mm(const at::Tensor& x, const at::Tensor& y) {
  if (!fits_tiles(x, y)) return at::cpu::mm(x, y);
  at::Tensor out = at::empty({x.size(0), y.size(1)}, x.options());
  multiply(x, y, out);
  return out;
}

at::Tensor& mm_out(const at::Tensor& x, const at::Tensor& y, at::Tensor& out) {
  const bool fits =
      fits_tiles(x, y) && is_large(out) && !is_transposed(out) && out.size(0) == x.size(0) && out.size(1) == y.size(1);
  if (!fits) return at::cpu::mm_out(out, x, y);
  at::assert_no_overlap(out, x);
  at::assert_no_overlap(out, y);
  multiply(x, y, out);
  return out;
}

// LibTorch warns of kernels that take another's place, as this one shall.
class Silence final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  library.impl("mm", mm);
  library.impl("mm.out", mm_out);
}

}  // namespace
}  // namespace fathom::ops

#endif
