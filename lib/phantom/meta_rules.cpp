// Meta kernels that LibTorch has in Python only: shape and type of the result, as the CPU's kernel makes them.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/NativeFunctions.h>
#include <torch/library.h>

#include "phantom/backend.h"

namespace fathom::phantom {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// The result is like argument number `index`.
template <int index>
void like(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  size_t count = op.schema().arguments().size();
  Tensor result = at::empty_like(torch::jit::peek(*stack, index, count).toTensor());
  torch::jit::drop(*stack, count);
  stack->push_back(std::move(result));
}

Tensor& resized(Tensor& out, at::IntArrayRef size) {
  if (out.sizes() != size) out.resize_(size);
  return out;
}

Tensor& like_input_out(const Tensor& input, Tensor& out) {
  resized(out, input.sizes());
  if (!input.is_contiguous() && input.is_non_overlapping_and_dense() && out.strides() != input.strides())
    out.as_strided_(input.sizes(), input.strides());
  return out;
}

std::vector<int64_t> selected_sizes(const Tensor& input, int64_t dim, const Tensor& index) {
  auto size = input.sizes().vec();
  dim = at::maybe_wrap_dim(dim, input.dim());
  if (input.dim()) size[static_cast<size_t>(dim)] = index.numel();
  return size;
}

Tensor index_select(const Tensor& input, int64_t dim, const Tensor& index) {
  return at::empty(selected_sizes(input, dim, index), input.options());
}

Tensor& index_select_out(const Tensor& input, int64_t dim, const Tensor& index, Tensor& out) {
  return resized(out, selected_sizes(input, dim, index));
}

Tensor embedding_dense_backward(const Tensor& gradient, const Tensor&, c10::SymInt rows, c10::SymInt, bool) {
  return at::empty_symint({std::move(rows), gradient.sym_size(-1)}, gradient.options());
}

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double, std::optional<bool>) {
  return {at::empty_like(input), at::empty_like(input, input.options().dtype(at::kBool))};
}

Tensor where(const Tensor& condition, const Tensor& self, const Tensor& other) {
  auto size = at::infer_size(condition.sizes(), at::infer_size(self.sizes(), other.sizes()));
  return at::empty(size, condition.options().dtype(at::result_type(self, other)));
}

Tensor& where_out(const Tensor& condition, const Tensor& self, const Tensor& other, Tensor& out) {
  return resized(out, at::infer_size(condition.sizes(), at::infer_size(self.sizes(), other.sizes())));
}

Tensor& broadcast_out(const Tensor& self, const Tensor& other, Tensor& out) {
  return resized(out, at::infer_size(self.sizes(), other.sizes()));
}

Tensor truth_like(const Tensor& input) { return at::empty_like(input, input.options().dtype(at::kBool)); }
Tensor number_like(const Tensor& input) { return at::empty({}, input.options()); }
Tensor dot(const Tensor& self, const Tensor&) { return number_like(self); }

Tensor var(const Tensor& input, at::OptionalIntArrayRef dim, const std::optional<at::Scalar>&, bool keep_dim) {
  return at::empty_like(at::sum(input, dim, keep_dim));
}

Tensor multinomial(const Tensor& weights, c10::SymInt samples, bool, std::optional<at::Generator>) {
  auto size = weights.sizes().vec();
  size.back() = samples.expect_int();
  return at::empty(size, weights.options().dtype(at::kLong));
}

Tensor& randperm_out(c10::SymInt n, std::optional<at::Generator>, Tensor& out) {
  return resized(out, {n.expect_int()});
}

Tensor indices_like(const Tensor& input, bool int32) {
  return at::empty(input.sizes(), input.options().dtype(int32 ? at::kInt : at::kLong));
}

Tensor bucketize(const Tensor& input, const Tensor&, bool int32, bool) { return indices_like(input, int32); }

Tensor searchsorted(const Tensor&, const Tensor& input, bool int32, bool, std::optional<c10::string_view>,
                    const OptionalTensor&) {
  return indices_like(input, int32);
}

Tensor int_mm(const Tensor& self, const Tensor& other) {
  return at::empty({self.size(0), other.size(1)}, self.options().dtype(at::kInt));
}

Tensor int8pack_mm(const Tensor& input, const Tensor& weight, const Tensor&) {
  return at::empty({input.size(0), weight.size(0)}, input.options());
}

Tensor histc(const Tensor& input, int64_t bins, const at::Scalar&, const at::Scalar&) {
  return at::empty({bins}, input.options());
}

std::tuple<Tensor, Tensor> fake_quantize_per_channel(const Tensor& input, const Tensor&, const Tensor&, int64_t,
                                                     int64_t, int64_t) {
  return {at::empty_like(input), truth_like(input)};
}

}  // namespace

void register_meta_rules() {
  torch::Library& library = library_for(c10::DispatchKey::Meta);
  for (const char* name : {"relu", "flip", "roll", "native_dropout_backward"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&like<0>>());
  for (const char* name : {"glu_backward", "mse_loss_backward"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&like<1>>());
  library.impl("abs.out", like_input_out);
  library.impl("index_select", index_select);
  library.impl("index_select.out", index_select_out);
  library.impl("embedding_dense_backward", embedding_dense_backward);
  library.impl("native_dropout", native_dropout);
  library.impl("where.self", where);
  library.impl("where.self_out", where_out);
  for (const char* name : {"logical_and.out", "logical_or.out", "polar.out"}) library.impl(name, broadcast_out);
  library.impl("isnan", truth_like);
  for (const char* name : {"max", "min"}) library.impl(name, number_like);
  library.impl("dot", dot);
  for (const char* name : {"var.correction", "std.correction"}) library.impl(name, var);
  library.impl("multinomial", multinomial);
  library.impl("randperm.generator_out", randperm_out);
  library.impl("bucketize.Tensor", bucketize);
  library.impl("searchsorted.Tensor", searchsorted);
  library.impl("_int_mm", int_mm);
  library.impl("_weight_int8pack_mm", int8pack_mm);
  library.impl("histc", histc);
  library.impl("fake_quantize_per_channel_affine_cachemask", fake_quantize_per_channel);
}

}  // namespace fathom::phantom
