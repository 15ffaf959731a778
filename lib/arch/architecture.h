// What a model is, as a value with a row for each layer; the names and shapes of its parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "arch/layer_names.h"
#include "arch/rope.h"
#include "base/activation.h"
#include "base/dtype.h"
#include "base/json.h"
#include "base/router_scores.h"
#include "quant/folder_format.h"

namespace fathom::arch {

// Where the norms of a layer stand: before the mixer and before the feed-forward part, in front of what reads the
// stream; after them, on what is added to it; or both.
enum class NormPlacement { kBefore, kAfter, kBoth };
// What is normalised of queries and keys before they are rotated: each head by itself, or all heads of a token as one.
enum class QueryKeyNorm { kNone, kEachHead, kAllHeads };

// Keys and values of all heads are made of one narrow row of each token, queries of another, and positions turn a part
// of each head that is behind the rest; one head of keys has that part for all (DeepSeek-AI 2024, arXiv 2405.04434).
struct LatentHeads {
  int64_t query_rank = 0;  // of the row that queries are made of; 0: they are made of the stream
  int64_t rank = 0;        // of the row that keys and values are made of
  int64_t turned = 0;      // numbers at the end of a head of queries and keys that are turned
  int64_t value_dim = 0;   // of a head of values, head_dim at most
  double norm_eps = 1e-6;  // of both rows, which are normalised
  bool operator==(const LatentHeads&) const = default;
};

struct Attention {
  int64_t heads = 0;            // H
  int64_t key_value_heads = 0;  // K
  int64_t head_dim = 0;         // E
  int64_t window = 0;           // positions that a query sees, its own included; 0: all before it
  bool input_bias = false;      // of q_proj, k_proj and v_proj
  bool output_bias = false;     // of o_proj
  bool scaled = true;           // scores by 1 / sqrt(E)
  double softcap = 0;           // scores s are softcap * tanh(s / softcap); 0: they stay as they are
  bool fused = false;           // one projection makes queries, keys and values, in this order
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  bool norms_turned = false;     // query_key_norm is of queries and keys that are rotated already
  bool value_norm = false;       // of each head of values, without weights
  bool keys_are_values = false;  // values are what k_proj makes, before keys are normalised and rotated: no v_proj
  bool output_gate = false;  // q_proj makes of each head its query, then a gate: its sigmoid times what the head made
  bool sinks = false;        // each head has a number that takes part in the softmax over its scores, without a value
  std::optional<Rotary> rotary = std::nullopt;       // unset: queries and keys are not turned
  std::optional<LatentHeads> latent = std::nullopt;  // then K is H

  int64_t queries() const { return heads * head_dim; }         // H * E
  int64_t keys() const { return key_value_heads * head_dim; }  // K * E
  // What attention makes of a token, for the output projection.
  int64_t answers() const { return heads * (latent ? latent->value_dim : head_dim); }
  bool operator==(const Attention&) const = default;
};

// A convolution along the text, of each channel by itself, between two gates: of the parts B, C and x that one
// projection makes of a token it makes C * conv(B * x), of what came before and the token itself.
struct ShortConvolution {
  int64_t taps = 0;  // tokens that it sees
  bool operator==(const ShortConvolution&) const = default;
};

// The gated delta rule (Yang et al. 2024, arXiv 2412.06464): a state of each value head, a matrix [key_dim, value_dim],
// that each token makes decay, corrects by what it holds for the token's key, and reads with the token's query.
// Queries, keys and values first pass through a convolution along the text and SiLU; what is read is normalised and
// gated.
struct GatedDelta {
  int64_t key_heads = 0;  // of queries and of keys; each serves value_heads / key_heads value heads, one after another
  int64_t value_heads = 0;  // Hv
  int64_t key_dim = 0;      // of a query and of a key
  int64_t value_dim = 0;    // of a value
  int64_t taps = 0;         // tokens that the convolution sees

  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return value_heads * value_dim; }
  bool operator==(const GatedDelta&) const = default;
};

// What mixes the tokens of a text.
using Mixer = std::variant<Attention, ShortConvolution, GatedDelta>;

// How folders name the matrices of experts.
enum class ExpertFiles {
  kProjections,  // "mlp.experts.3.gate_proj.weight"
  kMixtral,      // "block_sparse_moe.experts.3.w1.weight"
  kStacked,      // "block_sparse_moe.input_linear.weight", of all experts
  kWhole,        // "mlp.experts.gate_up_proj", of all experts
  kTurned,       // "mlp.experts.gate_up_proj", of all experts, each with the columns of its matrix as rows
};

// Feed-forward parts of one shape, of which a router chooses some for each token and adds what they make, weighed by
// their scores (Shazeer et al. 2017, arXiv 1701.06538).
struct Experts {
  int64_t count = 0;        // N
  int64_t per_token = 0;    // K
  bool normalised = false;  // the weights of the chosen add up to one
  ExpertFiles files = ExpertFiles::kProjections;
  bool named_by_modules = true;  // what their linear layers were called names them among PEFT's target_modules
  bool biased = false;           // router and experts add biases, those of the down projections before they are weighed
  // Set: in the place of the activation, of rows of the gate and of the up projection that take turns.
  std::optional<ClampedGate> clamped = std::nullopt;
  // F of a part of the same shape that reads every token and is added to them; 0: there is none.
  int64_t shared_width = 0;
  bool shared_gated = true;  // times the sigmoid of a gate of its own
  RouterScores scores = {};
  bool operator==(const Experts&) const = default;
};

struct FeedForward {
  int64_t width = 0;   // F; of each expert, where there are some
  bool bias = false;   // of gate_proj, up_proj and down_proj
  bool gated = true;   // activation(gate) * up, else activation(up)
  bool fused = false;  // one projection makes gate and up, in this order
  Activation activation = Activation::kSilu;
  std::optional<Experts> experts = std::nullopt;  // always gated; of biases they say themselves
  bool operator==(const FeedForward&) const = default;
};

struct LayerSpec {
  NormPlacement norms = NormPlacement::kBefore;
  bool parallel = false;  // the feed-forward part reads the norm that the mixer reads, and has none of its own
  Mixer mixer;
  bool cross = false;  // then attends, as the mixer does, to what the encoder made
  FeedForward feed_forward;
  double added_scale = 1;  // of what the mixer and the feed-forward part add to the stream
  bool scalar = false;     // a stored number that nobody trains multiplies what the layer makes
  Naming naming = Naming::kLlama;

  bool norms_before() const { return norms != NormPlacement::kAfter; }
  bool norms_after() const { return norms != NormPlacement::kBefore; }
  LayerNames names() const;
  template <typename Kind>
  bool mixes_by() const {
    return std::holds_alternative<Kind>(mixer);
  }
  bool attends() const { return mixes_by<Attention>(); }
  // Of a layer that attends.
  const Attention& attention() const { return std::get<Attention>(mixer); }
  Attention& attention() { return std::get<Attention>(mixer); }
  bool has_bias() const {
    const bool of_router = feed_forward.experts && feed_forward.experts->biased;
    return feed_forward.bias || of_router || (attends() && (attention().input_bias || attention().output_bias));
  }
  bool operator==(const LayerSpec&) const = default;
};

// Positions as a bias of attention's scores, by how far a key lies from its query (Raffel et al. 2020, arXiv
// 1910.10683): a number for each head and bucket of distances, shared by the layers of a stack. An encoder's buckets
// tell before and after apart; a decoder's are all before.
struct RelativePositions {
  int64_t buckets = 0;
  int64_t max_distance = 0;  // from which on all are in one bucket
  bool operator==(const RelativePositions&) const = default;
};

// Of an encoder and decoder.
struct Encoder {
  int64_t layers = 0;  // the first ones of Architecture::layers, which see all of a source
  int64_t decoder_start_token_id = 0;
  bool operator==(const Encoder&) const = default;
};

// Where this decoder lies in a folder that holds a model of pictures or sound too.
struct TextPart {
  std::string model_type;                // of the whole model: "gemma3"
  std::string whole;                     // its class: "Gemma3ForConditionalGeneration"
  std::string model, head;               // what its tensors have for "model." and "lm_head.": "language_model.model."
  std::vector<int64_t> placeholder_ids;  // tokens in whose place a picture or sound stands, which text cannot have
  bool operator==(const TextPart&) const = default;
};

struct Architecture {
  std::string family;  // "LlamaForCausalLM", as families.h lists them
  std::optional<TextPart> text_part;
  int64_t vocab_size = 0;    // V
  int64_t added_tokens = 0;  // of these, without a row in the stored weights: tokens added to the tokenizer
  int64_t hidden_size = 0;   // D
  std::vector<LayerSpec> layers;
  std::optional<Encoder> encoder;
  std::optional<RelativePositions> relative;  // instead of rotary positions
  bool learned_positions = false;  // rows of a matrix, added to those of tokens: max_position_embeddings of them
  double dropout = 0;              // of what each branch adds, of attention's probabilities
  double embedding_dropout = 0;    // 0, or the same
  double inner_dropout = 0;        // of feed-forward widths, and of what a stack makes
  double embedding_scale = 1;      // of the embedding's rows, rounded to their type
  double head_scale = 1;           // of what the head reads
  double head_softcap = 0;         // of what it makes, as Attention::softcap
  // Of what is added to the loss where routers prefer some experts (ops/balance.h); 0: nothing is.
  double router_aux_loss_coef = 0;
  double norm_eps = 1e-6;
  double norm_offset = 0;      // added to the weights of norms
  bool centred_norms = false;  // LayerNorm: the mean is taken away first
  bool biased_norms = false;   // beside weights, but for those of queries and keys
  bool tie_word_embeddings = false;
  double initializer_range = 0.02;
  int64_t max_position_embeddings = 2048;
  DType dtype = DType::kF32;  // of the stored weights, as config.json says; of those that are not quantized
  std::optional<quant::FolderFormat> quantized;  // how projections or experts are stored; unset: as dtype says
  std::optional<int64_t> bos_token_id, pad_token_id;
  std::vector<int64_t> eos_token_ids;

  int64_t widest_gate() const;     // F of the widest feed-forward part with a gate and without experts; 0: none
  const Experts* experts() const;  // those of the layers that have some, which are alike; null: none has
  int64_t num_hidden_layers() const { return static_cast<int64_t>(layers.size()); }  // L
  // In which a base is held where nobody says otherwise: as it is stored, but FP32 for FP16 of an encoder and decoder,
  // whose feed-forward parts make more than FP16 holds.
  DType dtype_in_use() const { return encoder && dtype == DType::kF16 ? DType::kF32 : dtype; }
  // Tokens that a text may have at most; unset: any number, as positions have no end.
  std::optional<int64_t> longest_text() const {
    return learned_positions ? std::optional(max_position_embeddings) : std::nullopt;
  }
  int64_t encoder_layers() const { return encoder ? encoder->layers : 0; }
  std::string layer_prefix(int64_t layer) const;  // "model.layers.3."
  ModelNames names() const;
  // Of the first layer that attends; one does.
  const Attention& attention() const;
  // Each E of the layers that attend, once, the least first.
  std::vector<int64_t> head_dims() const;
  int64_t head_dim() const { return head_dims().front(); }
  bool has_sinks() const;  // a layer has Attention::sinks
  // Every way of turning heads that a layer has, once.
  std::vector<Rotary> rotaries() const;
  // The window of the layers that have one, which is the same for all of these; 0: no layer has one.
  int64_t sliding_window() const;
  bool operator==(const Architecture&) const = default;
};

// Reads the spellings of transformers 4 (rope_theta, rope_scaling, torch_dtype) and 5 (rope_parameters, dtype), and
// takes its defaults for absent keys. Throws Error naming the key for what this decoder cannot express (other
// architectures, other kinds of positions) and for absurd numbers.
Architecture parse_architecture(const Json& config, std::string_view origin);

// The architecture with rows of embedding and head for so many tokens more, which the tokenizer has beyond vocab_size.
Architecture with_added_tokens(Architecture architecture, int64_t tokens);

// What a parameter is to its model.
enum class Role {
  kEmbedding,
  kPositions,
  kHead,
  kNorm,
  kRelativeBias,
  kProjection,   // the matrix of a linear layer within a block: what adapters, codes and fake quantization are for
  kRouter,       // the matrix of a linear layer that chooses experts: it may have an adapter, and never codes
  kExperts,      // likewise of all experts of a layer, one below the other: adapters and codes
  kConvolution,  // what each channel's tokens are multiplied with, the last one last: neither adapter nor codes
  kGateNorm,     // the weight of a norm that is gated: norm_offset is not added to it
  kDecayRate,    // of a GatedDelta, the logarithm of how fast each value head's state decays
  kDecayBias,    // likewise, added to what each token says of it
  kLayerScalar,  // LayerSpec::scalar: part of the model, and never trained
  kSink,         // of attention, a number for each head: neither adapter nor codes
  kBias,
  kCorrection,  // RouterScores::corrected
  kExpertBias,  // of a router, or of all experts of a layer one after the other
  kStepSizes,   // of a projection that is fake-quantized; a run has them, not the model
  kAdapterA,    // likewise
  kAdapterB,
};

struct ParameterSpec {
  static constexpr int64_t kNoLayer = -1;

  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;
  Role role = Role::kNorm;
  int64_t layer = kNoLayer;  // counted from 0
  double initial_std = 0;    // of the normal distribution a matrix, sinks or a router's biases are drawn from
  int64_t experts = 1;       // of how many matrices it is made, which lie one below the other
  bool is_matrix() const { return shape.size() == 2; }
  bool takes_decay() const { return is_matrix() && role != Role::kRelativeBias && role != Role::kStepSizes; }
  bool has_row_per_token() const { return role == Role::kEmbedding || role == Role::kHead; }
  // Whatever type the rest of a base has: what is rounded of it would change every token's decay in proportion, or
  // which experts are chosen.
  bool stays_fp32() const {
    return role == Role::kDecayRate || role == Role::kDecayBias || role == Role::kGateNorm || role == Role::kCorrection;
  }
  bool is_constant() const { return role == Role::kLayerScalar || role == Role::kCorrection; }  // no run trains it
  // In codes, where a run or a folder has some; in those of a scheme.
  bool may_be_coded() const { return role == Role::kProjection || role == Role::kExperts; }
  bool may_be_coded_in(quant::Scheme scheme) const {
    return role == Role::kExperts || (role == Role::kProjection && !quant::is_of_experts_alone(scheme));
  }
  std::string module() const { return name.substr(0, name.rfind('.')); }  // "model.layers.0.self_attn.q_proj"
  int64_t elements() const;                                               // Throws Error where they leave int64.
};
// In the order of the forward pass, each matrix before its bias. A tied head has no entry of its own.
std::vector<ParameterSpec> parameter_specs(const Architecture& architecture);
int64_t parameter_count(const Architecture& architecture);
// Of these, those that one token is multiplied with or looked up in: of experts, those that a router chooses for it.
int64_t active_parameter_count(const Architecture& architecture);

// The unit of a model that a parameter belongs to (model/units.h): 0 of the embeddings and what else comes before the
// layers, n + 1 of layer n, and the last of the last norm and an untied head.
int64_t unit_of(const ParameterSpec& spec, const Architecture& architecture);

// A tensor that a layer keeps of the tokens so far while it generates: in the type of products, or always in FP32.
struct KeptTensor {
  std::vector<int64_t> sizes;
  bool in_fp32 = false;
  bool operator==(const KeptTensor&) const = default;
};
// Of `batch` texts of at most `capacity` tokens: keys and values [B, K, C, E]; or B * x of a convolution's last tokens,
// [B, taps - 1, D]; or what a GatedDelta's convolution read of them, and its states.
std::vector<KeptTensor> kept_while_generating(const Architecture& architecture, const LayerSpec& layer, int64_t batch,
                                              int64_t capacity);

}  // namespace fathom::arch
