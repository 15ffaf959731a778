// What bitsandbytes keeps of an NF4 matrix beside its tensors, a JSON text in a tensor of bytes: written, and read from
// a file that is not trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "quant/layout.h"

namespace fathom::quant {

struct QuantState {
  int64_t rows = 0, columns = 0;
  DType dtype = DType::kF32;    // that bitsandbytes dequantizes into
  std::optional<float> offset;  // of double quantization
  bool operator==(const QuantState&) const = default;
};

// The text is as long for every matrix of a scheme, blanks at its end, so that a file's header can be written before
// its matrices are quantized.
std::string quant_state_text(const QuantState& state);
int64_t quant_state_bytes(Scheme scheme);

// where: what errors name, a file and a tensor. Throws Error for what is not NF4 in blocks of 64, and with double
// quantization of 256.
QuantState parse_quant_state(std::string_view text, const std::string& where);

}  // namespace fathom::quant
