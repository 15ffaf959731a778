// What an operator of lib/ops declares of its memory for the analytic estimate: which tensors it keeps
// for its backward pass, and which it takes besides.
#pragma once

#include <cstdint>
#include <vector>

#include "base/product.h"
#include "memory/component.h"

namespace fathom::footprint {

struct Bytes {
  const char* what;    // "queries, keys and values"
  const char* source;  // where the formula comes from: a paper, or the file that implements it
  Product product;
  // Of what is kept; all else are temporary buffers, autocast's copies apart.
  memory::Component component = memory::Component::kActivations;
};
using Tensors = std::vector<Bytes>;  // tensors that are alive together

// What a pass computes and moves: floating-point operations of matrix products, bytes that are read and written
// besides.
struct Work {
  int64_t flops = 0, bytes = 0;
};

struct Footprint {
  Tensors kept;                   // from the forward pass to the end of the backward pass
  std::vector<Tensors> forward;   // while it runs, its inputs and its output included: one moment after the other
  std::vector<Tensors> backward;  // likewise, beside what is kept, the gradients of output and inputs included
  Work forward_work = {}, backward_work = {};
  std::vector<Tensors> before_gradients = {};  // moments of the backward pass that come before gradients of weights
};

// Throws Error where the sum leaves int64.
int64_t bytes_of(const Tensors& moment);
// Of an operator without products, which reads and writes each of its tensors once.
Footprint elementwise(Footprint footprint);

// What the operators of one batch have in common. Bytes are those of an element.
struct StepSizes {
  int64_t tokens = 0;               // rows times length, padding included
  int64_t stored_bytes = 4;         // of the base's weights and the residual stream
  int64_t compute_bytes = 4;        // of products with them
  int64_t adapter_bytes = 4;        // in which adapters compute
  int64_t rank = 0;                 // of adapters
  bool dropout = false;             // of what adapters read
  bool adapters_stay_cast = false;  // their copies in autocast's type
  bool cuda = false;
  bool own_kernels = false;   // fathom's on a GPU, which take FP32 and BF16
  bool fp8_products = false;  // of projections in FP8
  bool casts() const { return compute_bytes != stored_bytes; }
  Product wide(int64_t width, int64_t bytes) const { return {{tokens, "tokens"}, {width, ""}, {bytes, "bytes"}}; }
};

inline constexpr const char* kGradientSource = "a gradient on its way back has the shape of its value";
inline constexpr const char* kAutocastSource = "autocast computes in 16 bits, from copies of FP32 weights (torch.amp)";

}  // namespace fathom::footprint
