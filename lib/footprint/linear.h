// What a linear layer keeps and takes, by its sizes.
#pragma once

#include <cstdint>
#include <optional>

#include "footprint/footprint.h"
#include "quant/layout.h"

namespace fathom::footprint {

// What layers of experts say of their adapters and casts, too.
inline constexpr const char* kLora = "LoRA: y = W x + b (a x) (Hu et al. 2021, arXiv 2106.09685)";
inline constexpr auto kCopy = memory::Component::kFunctionality;  // of a weight that is cast or dequantized

// A linear layer, by its sizes.
struct LinearSizes {
  int64_t in = 0, out = 0;
  bool trained = false, adapted = false;
  bool makes_input_again = false;                          // in the backward pass, instead of keeping it
  bool input_is_made = false;                              // again, by who went backward before, and stays
  bool rounds_input_again = false;                         // with fake_codes, as it was rounded in the forward pass
  bool rounds_what_is_kept = false;                        // then, and not what is made again
  bool met_by_gate = false;                                // the input, with the gradients of gate and up
  bool input_is_kept = false;                              // by what made it, when the layer runs forward
  bool input_needs_gradient = true;                        // not of the first layer over a frozen embedding
  bool adds_to_gradient = false;                           // of the input, which another layer has made
  bool comes_cast = false;                                 // the weight: no copy is made of it
  std::optional<quant::Scheme> codes = std::nullopt;       // in which the frozen weight is stored
  std::optional<quant::Scheme> fake_codes = std::nullopt;  // to which the weight is rounded for each product
  bool keeps_input() const { return trained || adapted || fake_codes; }
};
// The input is not in `kept`: several layers may share it.
Footprint linear_footprint(const StepSizes& step, const LinearSizes& sizes);
// Of one with fake_codes.
Footprint fake_quantized_footprint(const StepSizes& step, const LinearSizes& sizes);
// What linear layers with fake_codes read, rounded to codes of INT8 (ops::fake_quantize_tokens): what it becomes,
// beside what it was.
Tensors rounded_input(const StepSizes& step, int64_t width);

}  // namespace fathom::footprint
