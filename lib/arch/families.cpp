// The table of families, after transformers 5's configuration_*.py and modeling_*.py.
#include "arch/families.h"

namespace fathom::arch {

const std::vector<Family>& families() {
  static const std::vector<Family> table = {
      {.name = "LlamaForCausalLM",
       .model_type = "llama",
       .input_bias = Bias::kByKey,
       .output_bias = Bias::kByKey,
       .feed_forward_bias = Bias::kByKey,
       .max_position_embeddings = 2048,
       .bos_token_id = 1,
       .eos_token_id = 2},
      {.name = "MistralForCausalLM",
       .model_type = "mistral",
       .windows = Windows::kEveryLayer,
       .max_position_embeddings = 131072,
       .num_key_value_heads = 8,
       .bos_token_id = 1,
       .eos_token_id = 2},
      {.name = "Qwen2ForCausalLM",
       .model_type = "qwen2",
       .input_bias = Bias::kAlways,
       .windows = Windows::kChosenLayers,
       .max_position_embeddings = 32768,
       .num_key_value_heads = 32},
      {.name = "Qwen3ForCausalLM",
       .model_type = "qwen3",
       .input_bias = Bias::kByKey,
       .output_bias = Bias::kByKey,
       .query_key_norm = QueryKeyNorm::kEachHead,
       .windows = Windows::kChosenLayers,
       .max_position_embeddings = 32768,
       .num_key_value_heads = 32,
       .head_dim = 128},
      {.name = "Olmo2ForCausalLM",
       .model_type = "olmo2",
       .input_bias = Bias::kByKey,
       .output_bias = Bias::kByKey,
       .query_key_norm = QueryKeyNorm::kAllHeads,
       .norms = NormPlacement::kAfter,
       .max_position_embeddings = 2048,
       .rms_norm_eps = 1e-5,
       .eos_token_id = 50279},
      {.name = "T5ForConditionalGeneration", .model_type = "t5", .is_encoder_decoder = true},
  };
  return table;
}

}  // namespace fathom::arch
