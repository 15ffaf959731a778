// What a config.json says of a decoder, as numbers; the names and shapes of its parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/rope.h"
#include "base/dtype.h"
#include "base/json.h"
#include "quant/folder_format.h"

namespace fathom::arch {

// Where the two norms of a layer stand: before attention and before the feed-forward part, in front of what reads the
// stream; or after them, on what is added to it.
enum class NormPlacement { kBefore, kAfter };
// What is normalised of queries and keys before they are rotated: each head by itself, or all heads of a token as one.
enum class QueryKeyNorm { kNone, kEachHead, kAllHeads };

struct ModelShape {
  std::string architecture;         // "LlamaForCausalLM"; the family, as families.h lists them
  int64_t vocab_size = 0;           // V
  int64_t added_tokens = 0;         // of these, without a row in the stored weights: tokens added to the tokenizer
  int64_t hidden_size = 0;          // D
  int64_t intermediate_size = 0;    // F
  int64_t num_hidden_layers = 0;    // L
  int64_t num_attention_heads = 0;  // H
  int64_t num_key_value_heads = 0;  // K
  int64_t head_dim = 0;             // E
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  std::optional<ScaledRope> rope_scaling;
  bool query_key_value_bias = false;  // of q_proj, k_proj and v_proj
  bool output_bias = false;           // of o_proj
  bool feed_forward_bias = false;     // of gate_proj, up_proj and down_proj
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  NormPlacement norms = NormPlacement::kBefore;
  int64_t sliding_window = 0;         // positions that a query sees, its own included; 0: all before it
  std::vector<bool> windowed_layers;  // which layers have the window; empty: all
  bool tie_word_embeddings = false;
  double initializer_range = 0.02;
  int64_t max_position_embeddings = 2048;
  DType dtype = DType::kF32;  // of the stored weights, as config.json says; of those that are not quantized
  std::optional<quant::FolderFormat> quantized;  // how projections of layers are stored; unset: as dtype says
  std::optional<int64_t> bos_token_id, pad_token_id;
  std::vector<int64_t> eos_token_ids;

  // How far back a query of this layer sees, its own position included; 0: all the way.
  int64_t window_of(int64_t layer) const {
    return windowed_layers.empty() || windowed_layers[static_cast<size_t>(layer)] ? sliding_window : 0;
  }
};

// Reads the spellings of transformers 4 (rope_theta, rope_scaling, torch_dtype) and 5 (rope_parameters, dtype), and
// takes its defaults for absent keys. Throws Error naming the key for what this decoder cannot express (other
// architectures, other stretched positions than llama3) and for absurd numbers.
ModelShape parse_model_shape(const Json& config, std::string_view origin);

// The modules of a layer's two norms: "input_layernorm".
struct LayerNorms {
  const char *attention, *feed_forward;
};
LayerNorms layer_norms(const ModelShape& shape);

// The shape with rows of embedding and head for so many tokens more, which the tokenizer has beyond vocab_size.
ModelShape with_added_tokens(ModelShape shape, int64_t tokens);

// What a parameter is to its model.
enum class Role {
  kEmbedding,
  kHead,
  kNorm,
  kProjection,  // the matrix of a linear layer within a block: what adapters, codes and fake quantization are for
  kBias,
  kStepSizes,  // of a projection that is fake-quantized; a run has them, not the model
  kAdapterA,   // likewise
  kAdapterB,
};

struct ParameterSpec {
  static constexpr int64_t kNoLayer = -1;

  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;
  Role role = Role::kNorm;
  int64_t layer = kNoLayer;                             // counted from 0
  bool is_matrix() const { return shape.size() == 2; }  // takes weight decay
  bool has_row_per_token() const { return role == Role::kEmbedding || role == Role::kHead; }
  std::string module() const { return name.substr(0, name.rfind('.')); }  // "model.layers.0.self_attn.q_proj"
  int64_t elements() const;                                               // Throws Error where they leave int64.
};
// In the order of the forward pass, each matrix before its bias. A tied head has no entry of its own.
std::vector<ParameterSpec> parameter_specs(const ModelShape& shape);
int64_t parameter_count(const ModelShape& shape);

}  // namespace fathom::arch
