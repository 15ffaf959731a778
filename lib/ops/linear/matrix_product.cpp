// The operators' schemas, and a kernel for each device.
#include "ops/linear/matrix_product.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/addmv_ops.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/mm_ops.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/linear/amx_threads.h"
#include "ops/linear/widened_product.h"

namespace fathom::ops {
namespace {

// Of two dimensions, or three where they are batches.
bool are_factors(const at::Tensor& x, const at::Tensor& y, int64_t dimensions = 2) {
  return x.dim() == dimensions && y.dim() == dimensions && x.layout() == at::kStrided && y.layout() == at::kStrided &&
         x.scalar_type() == y.scalar_type() && x.size(-1) == y.size(-2);
}

bool is_product(const at::Tensor& out, const at::Tensor& x, const at::Tensor& y) {
  return out.dim() == x.dim() && out.layout() == at::kStrided && out.scalar_type() == x.scalar_type() &&
         out.size(-2) == x.size(-2) && out.size(-1) == y.size(-1);
}

#ifdef FATHOM_AMX

constexpr int64_t kLeastSide = 64;  // narrower ones, as of adapters, are left to oneDNN

// Of a matrix, or of each of a batch.
bool is_transposed(const at::Tensor& x) { return x.stride(-1) != 1; }

// Rows or columns side by side, of numbers without gaps.
bool is_plain(const at::Tensor& x) {
  return x.stride(-1) == 1 ? x.stride(-2) >= x.size(-1) : x.stride(-2) == 1 && x.stride(-1) >= x.size(-2);
}

bool is_large(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 && std::min(x.size(-2), x.size(-1)) >= kLeastSide && is_plain(x);
}

bool fits_tiles(const at::Tensor& x, const at::Tensor& y) { return is_large(x) && is_large(y) && amx::has_tiles(); }
bool takes_tiles(const at::Tensor& out) { return is_plain(out) && !is_transposed(out); }

cpu::amx::Factor factor_of(const at::Tensor& x) {
  const bool transposed = is_transposed(x);
  return {static_cast<const uint16_t*>(x.const_data_ptr()), x.size(-2), x.size(-1), x.stride(transposed ? -1 : -2),
          transposed};
}

void multiply_in_tiles(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out, bool adds = false) {
  amx::multiply_on_threads(
      cpu::amx::Product{factor_of(x), factor_of(y), static_cast<uint16_t*>(out.data_ptr()), out.stride(0), adds});
}

void multiply_batch_in_tiles(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out) {
  const cpu::amx::Product first{factor_of(x), factor_of(y), static_cast<uint16_t*>(out.data_ptr()), out.stride(1)};
  amx::multiply_batch_on_threads(out.size(0), [&](int64_t index) {
    cpu::amx::Product product = first;
    product.x.data += index * x.stride(0);
    product.y.data += index * y.stride(0);
    product.out += index * out.stride(0);
    return product;
  });
}

#else

bool fits_tiles(const at::Tensor& /*x*/, const at::Tensor& /*y*/) { return false; }
bool takes_tiles(const at::Tensor& /*out*/) { return false; }
void multiply_in_tiles(const at::Tensor& /*x*/, const at::Tensor& /*y*/, const at::Tensor& /*out*/,
                       bool /*adds*/ = false) {}
void multiply_batch_in_tiles(const at::Tensor& /*x*/, const at::Tensor& /*y*/, const at::Tensor& /*out*/) {}

#endif

// LibTorch multiplies smaller ones by itself, whatever the processor.
bool is_widened(const at::Tensor& x, const at::Tensor& y) {
  constexpr int64_t kLeastProducts = int64_t{16} * 16 * 16;
  return x.size(0) * x.size(1) * y.size(1) > kLeastProducts && widens_products(x.scalar_type());
}

at::Tensor mm_on_cpu(const at::Tensor& x, const at::Tensor& y) {
  const bool factors = are_factors(x, y), tiles = factors && fits_tiles(x, y);
  if (!tiles && !(factors && is_widened(x, y))) return at::cpu::mm(x, y);
  at::Tensor out = at::empty({x.size(0), y.size(1)}, x.options());
  tiles ? multiply_in_tiles(x, y, out) : multiply_widened(x, y, out);
  return out;
}

at::Tensor& mm_out_on_cpu(const at::Tensor& x, const at::Tensor& y, at::Tensor& out) {
  const bool product = are_factors(x, y) && is_product(out, x, y);
  const bool tiles = product && fits_tiles(x, y) && takes_tiles(out);
  if (!tiles && !(product && is_widened(x, y))) return at::cpu::mm_out(out, x, y);
  at::assert_no_overlap(out, x);
  at::assert_no_overlap(out, y);
  tiles ? multiply_in_tiles(x, y, out) : multiply_widened(x, y, out);
  return out;
}

bool are_batches(const at::Tensor& x, const at::Tensor& y) {
  return are_factors(x, y, 3) && x.size(0) == y.size(0) && x.size(0) > 0;
}

// LibTorch copies factors with gaps in memory, like the heads of one row, for oneDNN; tiles take them as they lie.
at::Tensor& bmm_out_on_cpu(const at::Tensor& x, const at::Tensor& y, at::Tensor& out) {
  const bool tiles = are_batches(x, y) && fits_tiles(x, y) && is_product(out, x, y) && out.size(0) == x.size(0);
  if (!tiles || !takes_tiles(out)) return at::cpu::bmm_out(out, x, y);
  at::assert_no_overlap(out, x);
  at::assert_no_overlap(out, y);
  multiply_batch_in_tiles(x, y, out);
  return out;
}

at::Tensor bmm_on_cpu(const at::Tensor& x, const at::Tensor& y) {
  if (!are_batches(x, y) || !fits_tiles(x, y)) return at::cpu::bmm(x, y);
  at::Tensor out = at::empty({x.size(0), x.size(1), y.size(2)}, x.options());
  multiply_batch_in_tiles(x, y, out);
  return out;
}

at::Tensor bmm_on_meta(const at::Tensor& x, const at::Tensor& y) {
  return at::_ops::bmm::redispatch(c10::DispatchKeySet{c10::DispatchKey::Meta}, x, y);
}

at::Tensor& bmm_out_on_meta(const at::Tensor& x, const at::Tensor& y, at::Tensor& out) {
  return at::_ops::bmm_out::redispatch(c10::DispatchKeySet{c10::DispatchKey::Meta}, x, y, out);
}

bool is_widened_sum(const at::Tensor& sum, const at::Tensor& x, const at::Tensor& y) {
  return are_factors(x, y) && sum.scalar_type() == x.scalar_type() && is_widened(x, y);
}

at::Tensor addmm_on_cpu(const at::Tensor& sum, const at::Tensor& x, const at::Tensor& y, const at::Scalar& alpha) {
  if (!is_widened_sum(sum, x, y)) return at::cpu::addmm(sum, x, y, 1, alpha);
  at::Tensor out = at::empty({x.size(0), y.size(1)}, x.options());
  const at::Tensor expanded = sum.expand(out.sizes());
  multiply_widened(x, y, out, &expanded, alpha);
  return out;
}

at::Tensor& addmm_in_place_on_cpu(at::Tensor& sum, const at::Tensor& x, const at::Tensor& y, const at::Scalar& alpha) {
  const bool product = are_factors(x, y) && is_product(sum, x, y);
  const bool tiles = product && alpha.equal(1) && fits_tiles(x, y) && takes_tiles(sum);
  if (!tiles && !(product && is_widened(x, y))) return at::cpu::addmm_(sum, x, y, 1, alpha);
  at::assert_no_overlap(sum, x);
  at::assert_no_overlap(sum, y);
  tiles ? multiply_in_tiles(x, y, sum, /*adds=*/true) : multiply_widened(x, y, sum, &sum, alpha);
  return sum;
}

// LibTorch's own kernels of a device, without a second call of an operator.
template <c10::DispatchKey key>
struct Elsewhere {
  static constexpr c10::DispatchKeySet kKeys{key};

  static at::Tensor mm(const at::Tensor& x, const at::Tensor& y) { return at::_ops::mm::redispatch(kKeys, x, y); }
  static at::Tensor& mm_out(const at::Tensor& x, const at::Tensor& y, at::Tensor& out) {
    return at::_ops::mm_out::redispatch(kKeys, x, y, out);
  }
  static at::Tensor addmm(const at::Tensor& sum, const at::Tensor& x, const at::Tensor& y, const at::Scalar& alpha) {
    return at::_ops::addmm::redispatch(kKeys, sum, x, y, 1, alpha);
  }
  static at::Tensor& addmm_in_place(at::Tensor& sum, const at::Tensor& x, const at::Tensor& y,
                                    const at::Scalar& alpha) {
    if (!is_product(sum, x, y) || x.size(0) != 1) return at::_ops::addmm_::redispatch(kKeys, sum, x, y, 1, alpha);
    // LibTorch would take a single row for a bias, and keep a workspace for cuBLASLt from then on.
    at::Tensor row = sum.select(0, 0);
    at::_ops::addmv_::redispatch(kKeys, row, y.t(), x.select(0, 0), 1, alpha);
    return sum;
  }
};

template <c10::DispatchKey key>
void register_elsewhere(torch::Library& library) {
  library.impl("mm", Elsewhere<key>::mm);
  library.impl("mm.out", Elsewhere<key>::mm_out);
  library.impl("addmm", Elsewhere<key>::addmm);
  library.impl("addmm_", Elsewhere<key>::addmm_in_place);
}

TORCH_LIBRARY(fathom, library) {
  library.def("mm(Tensor x, Tensor y) -> Tensor");
  library.def("mm.out(Tensor x, Tensor y, *, Tensor(a!) out) -> Tensor(a!)");
  library.def("bmm(Tensor x, Tensor y) -> Tensor");
  library.def("bmm.out(Tensor x, Tensor y, *, Tensor(a!) out) -> Tensor(a!)");
  library.def("addmm(Tensor sum, Tensor x, Tensor y, *, Scalar alpha=1) -> Tensor");
  library.def("addmm_(Tensor(a!) sum, Tensor x, Tensor y, *, Scalar alpha=1) -> Tensor(a!)");
}

TORCH_LIBRARY_IMPL(fathom, CPU, library) {
  library.impl("mm", mm_on_cpu);
  library.impl("mm.out", mm_out_on_cpu);
  library.impl("bmm", bmm_on_cpu);
  library.impl("bmm.out", bmm_out_on_cpu);
  library.impl("addmm", addmm_on_cpu);
  library.impl("addmm_", addmm_in_place_on_cpu);
}

TORCH_LIBRARY_IMPL(fathom, CUDA, library) { register_elsewhere<c10::DispatchKey::CUDA>(library); }
TORCH_LIBRARY_IMPL(fathom, Meta, library) {
  register_elsewhere<c10::DispatchKey::Meta>(library);
  library.impl("bmm", bmm_on_meta);
  library.impl("bmm.out", bmm_out_on_meta);
}

TORCH_LIBRARY_IMPL(fathom, Autograd, library) {
  for (const char* name : {"mm", "mm.out", "bmm", "bmm.out", "addmm", "addmm_"}) {
    library.impl(name, torch::CppFunction::makeFallthrough());
  }
}

template <typename Signature>
auto find(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).typed<Signature>();
}

}  // namespace

at::Tensor mm(const at::Tensor& x, const at::Tensor& y) {
  static const auto op = find<at::Tensor(const at::Tensor&, const at::Tensor&)>("fathom::mm", "");
  return op.call(x, y);
}

at::Tensor mm(const at::Tensor& x, const at::Tensor& y, at::ScalarType dtype) {
  const bool widens = x.is_cuda() && dtype == at::kFloat && x.scalar_type() != dtype;
  return widens ? at::mm(x, y, dtype) : ops::mm(x, y).to(dtype);
}

at::Tensor& mm_out(at::Tensor& out, const at::Tensor& x, const at::Tensor& y) {
  static const auto op = find<at::Tensor&(const at::Tensor&, const at::Tensor&, at::Tensor&)>("fathom::mm", "out");
  return op.call(x, y, out);
}

at::Tensor bmm(const at::Tensor& x, const at::Tensor& y) {
  if (x.is_cuda()) return at::bmm(x, y);
  static const auto op = find<at::Tensor(const at::Tensor&, const at::Tensor&)>("fathom::bmm", "");
  return op.call(x, y);
}

at::Tensor addmm(const at::Tensor& sum, const at::Tensor& x, const at::Tensor& y, const at::Scalar& alpha) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Scalar&);
  static const auto op = find<Signature>("fathom::addmm", "");
  return op.call(sum, x, y, alpha);
}

at::Tensor& addmm_(at::Tensor& sum, const at::Tensor& x, const at::Tensor& y, const at::Scalar& alpha) {
  using Signature = at::Tensor&(at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Scalar&);
  static const auto op = find<Signature>("fathom::addmm_", "");
  return op.call(sum, x, y, alpha);
}

at::Tensor multiply_by_weight(const at::Tensor& x_TD, const at::Tensor& weight_ND, const at::Tensor& bias_N) {
  return bias_N.defined() ? ops::addmm(bias_N, x_TD, weight_ND.t()) : ops::mm(x_TD, weight_ND.t());
}

}  // namespace fathom::ops
