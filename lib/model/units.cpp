// Storages without memory.
#include "model/units.h"

#include <c10/core/Storage.h>

namespace fathom::model {

void let_go(const at::Tensor& tensor) {
  const c10::Storage none(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                                c10::DataPtr(nullptr, tensor.device()),
                                                                /*allocator=*/nullptr, /*resizable=*/false));
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(none);
}

}  // namespace fathom::model
