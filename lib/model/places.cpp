// By storages: nothing is copied.
#include "model/places.h"

#include <ATen/ATen.h>

#include "model/units.h"

namespace fathom::model {

at::Tensor shaped(at::IntArrayRef sizes, const at::TensorOptions& options) {
  at::Tensor tensor = at::empty({0}, options);
  let_go(tensor);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

void place(const at::Tensor& tensor, const c10::Storage& storage, int64_t offset) {
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
  tensor.unsafeGetTensorImpl()->set_storage_offset(offset / tensor.element_size());
}

}  // namespace fathom::model
