// Documents of a packed batch: one row of tokens, end to end, none of which sees another.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace fathom::ops {

struct Documents {
  std::vector<int64_t> lengths;  // on the host; each at least 1
  int64_t longest = 0;
  at::Tensor positions_T;  // int32 on the device: of each token in its document
  at::Tensor offsets;      // int32 on the device, one more than documents: where each begins, and the end
};

}  // namespace fathom::ops
