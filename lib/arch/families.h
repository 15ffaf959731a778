// The families of decoders that there are, a row each: what sets one apart from the others, and what its config.json
// means where it is silent.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "arch/architecture.h"

namespace fathom::arch {

// Whether linear layers add a bias: never, as a key of config.json says (attention_bias, mlp_bias), or always.
enum class Bias { kNever, kByKey, kAlways };

// Which layers see a sliding window of config.json's size instead of everything before them.
enum class Windows {
  kNone,
  kEveryLayer,    // unless sliding_window is null
  kChosenLayers,  // where use_sliding_window is true: as layer_types says, else those from max_window_layers on
  kEveryIfAsked,  // where use_sliding_window is true, unless sliding_window is null
  kNamedLayers,   // as layer_types says, else all but the first and each full_attention_every-th behind it
};

// Whose keys say what experts there are (read_experts.cpp).
enum class ExpertKeys { kNone, kQwen3Moe, kMixtral, kOlmoe };

struct Family {
  std::string_view name;        // "Qwen2ForCausalLM"
  std::string_view model_type;  // "qwen2"
  Bias input_bias = Bias::kNever, output_bias = Bias::kNever, feed_forward_bias = Bias::kNever;
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  NormPlacement norms = NormPlacement::kBefore;
  Windows windows = Windows::kNone;
  ExpertKeys experts = ExpertKeys::kNone;
  bool is_encoder_decoder = false;  // its config.json has T5's keys (read_t5.cpp); the rest of the row says nothing
  // Where the key is absent, what transformers' configuration class says.
  int64_t max_position_embeddings = 0;
  int64_t num_key_value_heads = 0;  // 0: one for each query head
  int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  std::optional<ScaledRope> rope_scaling = std::nullopt;
  int64_t sliding_window = 4096;
  int64_t full_attention_every = 0;  // 0: no layer attends to everything
  std::optional<int64_t> bos_token_id = std::nullopt;
  std::vector<int64_t> eos_token_ids = {};
};

const std::vector<Family>& families();

}  // namespace fathom::arch
