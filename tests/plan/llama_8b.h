// The shape of Llama 3 8B.
#pragma once

#include "arch/architecture.h"

namespace fathom::plan::testing {

inline arch::Architecture llama_8b() {
  arch::Architecture architecture;
  architecture.family = "LlamaForCausalLM";
  architecture.vocab_size = 128256;
  architecture.hidden_size = 4096;
  architecture.layers.assign(
      32,
      {.mixer =
           arch::Attention{.heads = 32, .key_value_heads = 8, .head_dim = 128, .rotary = arch::Rotary{.width = 128}},
       .feed_forward = {.width = 14336}});
  architecture.dtype = DType::kBF16;
  return architecture;
}

}  // namespace fathom::plan::testing
