// Operators that the phantom device runs itself: making, viewing, resizing and copying storage, attention and dropout
// as the CPU runs them, and optimizers that write in place.
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/OpMathType.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include "phantom/backend.h"
#include "phantom/kernel_scratch.h"

namespace fathom::phantom {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &allocator(), kKeys, c10::dtype_or_default(dtype));
}

// Host memory that is "read" from the phantom becomes zeros, so that nothing depends on what was there before.
Tensor copy_from(const Tensor& source, const Tensor& destination, bool) {
  if (source.is_privateuseone() && destination.is_cpu()) destination.zero_();
  if (source.is_privateuseone() && destination.is_privateuseone()) {
    take_and_give_back(copy_scratch_bytes(source, destination));
  }
  return destination;
}

// Numbers read back are 1 and truths are false: no control flow may depend on them.
at::Scalar read_number(const Tensor& tensor) {
  if (tensor.scalar_type() == at::kBool) return false;
  return c10::isIntegralType(tensor.scalar_type(), false) ? at::Scalar(int64_t{1}) : at::Scalar(1.0);
}

void grow_storage(const Tensor& tensor) {
  size_t bytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize(),
                                                  static_cast<size_t>(tensor.storage_offset()));
  if (tensor.numel() && bytes > tensor.storage().nbytes()) resize_storage(tensor.storage(), bytes);
}

const Tensor& resize(const Tensor& tensor, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  grow_storage(tensor);
  return tensor;
}

Tensor& set_storage_shape(Tensor& tensor, at::Storage storage, int64_t offset, at::IntArrayRef size,
                          at::IntArrayRef stride) {
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_sizes_and_strides(size, stride, offset);
  grow_storage(tensor);
  return tensor;
}

Tensor& set_tensor(Tensor& tensor, const Tensor& source) {
  return set_storage_shape(tensor, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

Tensor& set_storage(Tensor& tensor, at::Storage storage) {
  auto elements = static_cast<int64_t>(storage.nbytes() / tensor.itemsize());
  return set_storage_shape(tensor, std::move(storage), 0, {elements}, {1});
}

// As the CPU does it: the mask has the input's type, and the product saves it.
Tensor dropout(const Tensor& input, double probability, bool train) {
  if (probability == 0 || !train || input.numel() == 0) return input;
  if (probability == 1) return input.mul(at::zeros({}, input.options()));
  Tensor noise = at::empty_like(input).bernoulli_(1 - probability);
  noise.div_(1 - probability);
  return input * noise;
}

// The statistics have the input's type, or float beside float parameters.
std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& input, at::IntArrayRef normalized,
                                              const OptionalTensor& weight, const OptionalTensor&, double) {
  auto statistics = input.sizes().vec();
  for (size_t i = statistics.size() - normalized.size(); i < statistics.size(); i++) statistics[i] = 1;
  bool mixed = weight && weight->defined() && weight->scalar_type() == at::kFloat;
  auto options = input.options().dtype(mixed ? at::kFloat : input.scalar_type());
  return {at::empty_like(input, at::MemoryFormat::Contiguous), at::empty(statistics, options),
          at::empty(statistics, options)};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor&, const Tensor& input, at::IntArrayRef,
                                                       const Tensor&, const Tensor&, const OptionalTensor& weight,
                                                       const OptionalTensor& bias, std::array<bool, 3> wanted) {
  auto like = [](bool wants, const OptionalTensor& t) {
    return wants && t && t->defined() ? at::empty_like(*t, at::MemoryFormat::Contiguous) : Tensor();
  };
  return {like(wanted[0], input), like(wanted[1], weight), like(wanted[2], bias)};
}

// Which attention the CPU would choose: its own rules, asked with the phantom's tensors.
int64_t attention_choice(const Tensor& query_BHSE, const Tensor& key_BKSE, const Tensor& value_BKSE,
                         const OptionalTensor& mask, double dropout_p, bool is_causal, std::optional<double> scale,
                         bool enable_gqa) {
  return at::native::_fused_sdp_choice_cpp(query_BHSE, key_BKSE, value_BKSE, mask, dropout_p, is_causal, scale,
                                           enable_gqa);
}

std::tuple<Tensor, Tensor> flash_attention(const Tensor& query_BHSE, const Tensor& key_BKSE, const Tensor&, double,
                                           bool, const OptionalTensor&, std::optional<double>) {
  Tensor output_BHSE = at::empty_like(query_BHSE);
  Tensor logsumexp_BSH = at::empty({query_BHSE.size(0), query_BHSE.size(2), query_BHSE.size(1)},
                                   query_BHSE.options().dtype(at::toOpMathType(query_BHSE.scalar_type())));
  take_and_give_back(attention_scratch_bytes(query_BHSE, key_BKSE));
  return {output_BHSE, logsumexp_BSH.transpose(1, 2)};
}

std::tuple<Tensor, Tensor, Tensor> flash_attention_backward(const Tensor& gradient_BHSE, const Tensor& query_BHSE,
                                                            const Tensor& key_BKSE, const Tensor& value_BKSE,
                                                            const Tensor&, const Tensor&, double, bool,
                                                            const OptionalTensor&, std::optional<double>) {
  auto gradient_of = [](const Tensor& t_BHSE) {
    return at::empty({t_BHSE.size(0), t_BHSE.size(2), t_BHSE.size(1), t_BHSE.size(3)}, t_BHSE.options())
        .transpose(1, 2);
  };
  std::tuple<Tensor, Tensor, Tensor> gradients = {gradient_of(query_BHSE), gradient_of(key_BKSE),
                                                  gradient_of(value_BKSE)};
  take_and_give_back(attention_backward_scratch_bytes(gradient_BHSE, query_BHSE, key_BKSE));
  return gradients;
}

}  // namespace

void register_kernels() {
  library_for(c10::DispatchKey::AutogradPrivateUse1).impl("dropout", dropout);
  // Without these a copy of a conjugate or negated view would call itself for ever.
  for (auto key : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative})
    library_for(key).impl("_copy_from", torch::CppFunction::makeFallthrough());
  torch::Library& library = library_for(c10::DispatchKey::PrivateUse1);
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize",
               [](const Tensor& source, const Tensor& destination) { return copy_from(source, destination, false); });
  library.impl("_local_scalar_dense", read_number);
  library.impl("as_strided",
               [](const Tensor& t, at::IntArrayRef size, at::IntArrayRef stride, std::optional<int64_t> offset) {
                 return at::native::as_strided_tensorimpl(t, size, stride, offset);
               });
  library.impl("view", [](const Tensor& t, at::IntArrayRef size) { return at::native::view(t, size); });
  library.impl("_reshape_alias", [](const Tensor& t, at::IntArrayRef size, at::IntArrayRef stride) {
    return at::native::_reshape_alias(t, size, stride);
  });
  library.impl("resize_", resize);
  library.impl("set_.source_Storage_storage_offset", set_storage_shape);
  library.impl("set_.source_Tensor", set_tensor);
  library.impl("set_.source_Storage", set_storage);
  library.impl("dropout", dropout);
  library.impl("native_layer_norm", layer_norm);
  library.impl("native_layer_norm_backward", layer_norm_backward);
  library.impl("_scaled_dot_product_flash_attention_for_cpu", flash_attention);
  library.impl("_scaled_dot_product_flash_attention_for_cpu_backward", flash_attention_backward);
  for (const char* name : {"_fused_adamw_", "_fused_adamw_.tensor_lr", "_fused_adam_", "_fused_sgd_",
                           "_amp_foreach_non_finite_check_and_unscale_"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&skip>());
}

}  // namespace fathom::phantom

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &fathom::phantom::attention_choice)
}
