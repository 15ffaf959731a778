// The families of decoders that there are, a row each: what sets one apart from the others, and what its config.json
// means where it is silent.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "arch/architecture.h"

namespace fathom::arch {

// Whether linear layers add a bias: never, as a key of config.json says (attention_bias, mlp_bias), or always.
enum class Bias { kNever, kByKey, kByKeyElseTrue, kAlways };

// Which layers see a sliding window of config.json's size instead of everything before them.
enum class Windows {
  kNone,
  kEveryLayer,    // unless sliding_window is null
  kChosenLayers,  // where use_sliding_window is true: as layer_types says, else those from max_window_layers on
  kChosenFirst,   // likewise, else every second one before max_window_layers, the first among them
  kEveryIfAsked,  // where use_sliding_window is true, unless sliding_window is null
  kNamedLayers,   // as layer_types says, else all but one in full_attention_every
};

// How the rotary positions of a family differ from those of Llama.
struct FamilyRotary {
  double theta = 10000;                                                           // where the key is absent
  std::variant<std::monostate, Llama3Rope, YarnRope> scaling = std::monostate();  // likewise
  bool interleaved = false;
  std::optional<double> width_share =
      std::nullopt;  // of each head is turned, where partial_rotary_factor is absent; unset: all
  std::optional<double> sliding_theta =
      std::nullopt;                   // layers with a window have positions of their own, never stretched
  int64_t unturned_every = 0;         // no_rope_layers, else the last of so many layers; 0: every layer is turned
  double query_growth = 0;            // llama_4_scaling_beta, where rope_parameters are absent
  bool longrope_by_any_name = false;  // "su" and "yarn" are longrope
  bool windows_alone = false;         // layers that see everything before them are not turned
  bool all_without_windows = false;   // but where sliding_window is null
  bool dynamic_by_alpha = false;      // "dynamic" is an NtkRope
  bool corrects_scores = false;       // mscale_all_dim is YaRN's correction of attention, of whole heads
  bool proportional = false;          // a share of the pairs may be turned, by the rope_type of this name
};

// Whose keys say what experts there are (read_experts.cpp).
enum class ExpertKeys {
  kNone,
  kQwen2Moe,
  kQwen3Moe,
  kQwen35Moe,
  kMixtral,
  kOlmoe,
  kGraniteMoe,
  kGptOss,
  kGlm4Moe,
  kQwen3Next,
  kDeepseekV3,
  kGlm4MoeLite,
  kMistral4
};

// Whose names the keys of a config.json have. A row of T5's or GPT-2's says no more than how the family is called.
enum class Keys { kLlama, kT5, kGpt2, kLfm2, kGraniteHybrid, kQwen35, kGemma4, kGptOss, kLatent };

struct Family {
  std::string_view name;        // "Qwen2ForCausalLM"
  std::string_view model_type;  // "qwen2"
  Bias input_bias = Bias::kNever, output_bias = Bias::kNever, feed_forward_bias = Bias::kNever;
  const char *input_bias_key = "attention_bias", *output_bias_key = "attention_bias",
             *feed_forward_bias_key = "mlp_bias";
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  bool query_key_norm_by_key = false;  // where use_qk_norm is true
  bool norms_turned = false;           // Attention::norms_turned
  NormPlacement norms = NormPlacement::kBefore;
  double norm_offset = 0;
  bool centred_norms = false;  // LayerNorm, whose epsilon is layer_norm_eps; else rms_norm_eps
  bool parallel = false;       // attention and the feed-forward part read one norm
  Naming naming = Naming::kLlama;
  bool fused_attention = false, fused_feed_forward = false;
  Activation activation = Activation::kSilu;
  std::string_view activation_alias = {};  // what hidden_act may call it besides
  bool gated = true;
  Windows windows = Windows::kNone;
  ExpertKeys experts = ExpertKeys::kNone;
  FamilyRotary rotary = {};
  std::optional<LatentHeads> latent = std::nullopt;  // where the keys are absent; set by Keys::kLatent alone
  bool multipliers = false;                          // Granite's four keys
  bool scales_embedding = false;                     // by sqrt(hidden_size)
  Keys keys = Keys::kLlama;
  // Where the key is absent, what transformers' configuration class says.
  int64_t max_position_embeddings = 0;
  int64_t num_key_value_heads = 0;  // 0: one for each query head
  int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  double norm_eps = 1e-6;
  int64_t query_pre_attn_scalar = 0;                               // scores by 1 / sqrt of it; 0: there is no such key
  bool plain_scores = false;                                       // scores by 1
  double logit_scale = 0;                                          // of what the head makes; 0: there is no such key
  double dropout = 0;                                              // attention_dropout and residual_dropout; 0: none
  double attn_logit_softcapping = 0, final_logit_softcapping = 0;  // 0: there is no such key
  int64_t sliding_window = 4096;                                   // 0: none
  int64_t full_attention_every = 0;                                // 0: no layer attends to everything
  bool full_attention_first = false;                               // of each group of so many; else its last
  bool sliding_window_pattern = false;                             // a key that says another number than that
  bool tie_word_embeddings = false;
  std::optional<int64_t> bos_token_id = std::nullopt, pad_token_id = std::nullopt;
  std::vector<int64_t> eos_token_ids = {};
};

const std::vector<Family>& families();

// What to do with a model that is of none of them.
inline constexpr std::string_view kOthersArePlanned =
    "`fathom phantom --gpu H100 --no-weights -- python train.py` plans its training by a script of transformers";

}  // namespace fathom::arch
