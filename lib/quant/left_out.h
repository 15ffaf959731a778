// Which linear layers of a folder a quantization_config leaves out.
#pragma once

#include <string>

#include "base/json.h"

namespace fathom::quant {

// Whether a name in such a list, or a pattern, is of what never has codes here: the head, the embedding, norms,
// routers, what of a gated delta is no linear layer, and what stands beside a text part (weights/other_parts.h).
bool is_never_coded(const std::string& name);

// Of a folder that holds other parts beside the decoder: a quantization_config that leaves these out.
Json beside_other_parts(Json quantization_config);

}  // namespace fathom::quant
