// The table of llama.cpp's architectures, after its src/models, and what of a model they compute otherwise.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "gguf/model_keys.h"

namespace fathom::gguf {
namespace {

using arch::Architecture;
using arch::LayerSpec;
using arch::Rotary;

constexpr LlamaCppArchitecture kArchitectures[] = {
    {.family = "LlamaForCausalLM",
     .name = "llama",
     .rotates_neighbours = true,
     .llama3 = true,
     .output_bias = true,
     .free_head_size = true},
    {.family = "MistralForCausalLM",
     .name = "llama",
     .rotates_neighbours = true,
     .llama3 = true,
     .output_bias = true,
     .free_head_size = true},
    {.family = "Qwen2ForCausalLM", .name = "qwen2"},
    {.family = "Qwen3ForCausalLM", .name = "qwen3", .free_head_size = true},
    {.family = "Gemma3ForCausalLM",
     .name = "gemma3",
     .yarn = false,
     .free_head_size = true,
     .windows = WindowedLayers::kOwnTheta,
     .full_attention_every = 6},
    {.family = "Phi3ForCausalLM", .name = "phi3", .longrope = true},
    {.family = "Olmo2ForCausalLM", .name = "olmo2", .needs_head = true},
    {.family = "Olmo3ForCausalLM",
     .name = "olmo2",
     .needs_head = true,
     .windows = WindowedLayers::kSameTheta,
     .full_attention_every = 4},
    {.family = "GraniteForCausalLM",
     .name = "granite",
     .rotates_neighbours = true,
     .llama3 = true,
     .output_bias = true,
     .free_head_size = true,
     .multipliers = true,
     .head_scale = HeadScale::kDivides},
    {.family = "SmolLM3ForCausalLM", .name = "smollm3", .rotates_neighbours = true, .free_head_size = true},
    {.family = "Glm4ForCausalLM", .name = "glm4", .rotates_neighbours = true, .free_head_size = true},
    {.family = "Ministral3ForCausalLM",
     .name = "mistral3",
     .rotates_neighbours = true,
     .llama3 = true,
     .yarn_turns = true,
     .output_bias = true,
     .free_head_size = true},
    {.family = "Qwen3MoeForCausalLM", .name = "qwen3moe", .free_head_size = true, .normalised_experts = true},
    {.family = "MixtralForCausalLM",
     .name = "llama",
     .rotates_neighbours = true,
     .llama3 = true,
     .output_bias = true,
     .free_head_size = true,
     .normalised_experts = true},
    {.family = "OlmoeForCausalLM",
     .name = "olmoe",
     .grouped_keys = false,
     .needs_head = true,
     .normalised_experts = false},
    {.family = "GraniteMoeForCausalLM",
     .name = "granitemoe",
     .rotates_neighbours = true,
     .llama3 = true,
     .output_bias = true,
     .free_head_size = true,
     .multipliers = true,
     .head_scale = HeadScale::kDivides,
     .normalised_experts = true},
    {.family = "Gemma2ForCausalLM",
     .name = "gemma2",
     .yarn = false,
     .free_head_size = true,
     .needs_tied_head = true,
     .windows = WindowedLayers::kSameRotary,
     .full_attention_every = 2},
    {.family = "Cohere2ForCausalLM",
     .name = "cohere2",
     .rotates_neighbours = true,
     .linear = false,
     .yarn = false,
     .needs_tied_head = true,
     .head_scale = HeadScale::kMultiplies,
     .windows = WindowedLayers::kSameRotary,
     .full_attention_every = 4},
    {.family = "GemmaForCausalLM", .name = "gemma", .free_head_size = true, .needs_tied_head = true},
    {.family = "Ernie4_5ForCausalLM", .name = "ernie4_5", .rotates_neighbours = true, .free_head_size = true},
    {.family = "ArceeForCausalLM", .name = "arcee", .rotates_neighbours = true, .llama3 = true, .free_head_size = true},
    {.family = "CohereForCausalLM",
     .name = "command-r",
     .rotates_neighbours = true,
     .linear = false,
     .yarn = false,
     .needs_tied_head = true,
     .head_scale = HeadScale::kMultiplies},
    {.family = "GPT2LMHeadModel", .name = "gpt2", .output_bias = true},
    {.family = "T5ForConditionalGeneration", .name = "t5", .free_head_size = true},
};

[[noreturn]] void refuse(const LlamaCppArchitecture& target, const std::string& where, const std::string& what) {
  throw Error(where + ": " + what + ", which llama.cpp's '" + std::string(target.name) + "' does not have",
              "export a folder for transformers: leave out --format gguf");
}

void check_layer(const LayerSpec& layer, const Architecture& model, const LlamaCppArchitecture& target,
                 const std::string& where) {
  const auto& attention = layer.attention();
  if (!target.output_bias && (attention.output_bias || layer.feed_forward.bias)) {
    refuse(target, where, "attention_bias or mlp_bias gives biases to outputs");
  }
  if (!target.free_head_size && attention.queries() != model.hidden_size) {
    refuse(target, where,
           "the heads together are as wide as " + std::to_string(attention.queries()) + ", the model as " +
               std::to_string(model.hidden_size));
  }
  if (!target.grouped_keys && attention.heads != attention.key_value_heads) {
    refuse(target, where, "num_key_value_heads makes heads share keys and values");
  }
  const auto& experts = layer.feed_forward.experts;
  if (target.normalised_experts && !experts) refuse(target, where, "some layers have no experts");
  if (experts && experts->normalised != target.normalised_experts) {
    refuse(target, where,
           experts->normalised ? "norm_topk_prob makes the weights of the chosen experts add up to one"
                               : "norm_topk_prob is false");
  }
}

void check_stretch(const Rotary& rotary, const LlamaCppArchitecture& target, const std::string& where) {
  const auto check = [&](bool computed, const char* how) {
    if (!computed) refuse(target, where, std::string("rotary positions are stretched ") + how);
  };
  if (std::holds_alternative<arch::LinearRope>(rotary.scaling)) check(target.linear, "by linear");
  if (std::holds_alternative<arch::Llama3Rope>(rotary.scaling)) check(target.llama3, "as Llama 3's");
  if (std::holds_alternative<arch::LongRope>(rotary.scaling)) check(target.longrope, "by longrope");
  const auto* yarn = std::get_if<arch::YarnRope>(&rotary.scaling);
  if (yarn == nullptr) return;
  check(target.yarn, "by yarn");
  check(yarn->whole_pairs, "by yarn with truncate: false");
  // Below that transformers' blend of frequencies ends before it begins.
  check(static_cast<double>(yarn->original_positions) > yarn->slow_turns * 2 * std::numbers::pi,
        "by yarn from fewer positions than a slow pair turns in");
  const arch::YarnRope usual;
  check(target.yarn_turns || (yarn->fast_turns == usual.fast_turns && yarn->slow_turns == usual.slow_turns),
        "by yarn with another beta_fast or beta_slow than 32 and 1");
}

// Where other layers have a sliding window, or turn heads with it otherwise. A file cannot say which layers have one:
// of attention.sliding_window_pattern llama.cpp reads a number, and leaves the list unread that its converters write.
void check_windows(const Architecture& model, const LlamaCppArchitecture& target, const std::string& where) {
  if (target.windows == WindowedLayers::kIgnored || model.sliding_window() == 0) return;
  for (int64_t layer = 0; layer < model.num_hidden_layers(); ++layer) {
    const bool slides = model.layers[static_cast<size_t>(layer)].attention().window > 0;
    if (slides != ((layer + 1) % target.full_attention_every != 0)) {
      refuse(target, where,
             "layer_types or sliding_window_pattern gives other layers a sliding window than all but one in " +
                 std::to_string(target.full_attention_every));
    }
  }
  const std::optional<Rotary> windowed = windowed_rotary_of(model);
  if (!windowed) return;
  Rotary expected = rotary_of(model);
  if (target.windows != WindowedLayers::kSameRotary) {
    expected.scaling = std::monostate();
    expected.magnitude = 1;
  }
  if (target.windows == WindowedLayers::kOwnTheta) expected.theta = windowed->theta;
  if (*windowed == expected) return;
  refuse(target, where, "rope_parameters give layers with a sliding window positions of another theta or stretch");
}

// Which layers SmolLM3 turns is written into the code of llama.cpp.
void check_turned(const Architecture& model, const LlamaCppArchitecture& target, const std::string& where) {
  constexpr int64_t kUnturnedEvery = 4;
  for (int64_t layer = 0; layer < model.num_hidden_layers(); ++layer) {
    const bool turned = model.layers[static_cast<size_t>(layer)].attention().rotary.has_value();
    if (turned != ((layer + 1) % kUnturnedEvery != 0)) {
      refuse(target, where, "no_rope_layers names other layers than each fourth one");
    }
  }
}

// Gemma's scores are scaled by 1 / sqrt(E); of its 27B models, which llama.cpp knows by their layers, otherwise.
void check_gemma(const Architecture& model, const LlamaCppArchitecture& target, const std::string& where) {
  const int64_t layers_of_27b = model.family == "Gemma2ForCausalLM" ? 46 : 62;
  const auto head = static_cast<double>(model.head_dim());
  double squared = head;
  if (model.num_hidden_layers() == layers_of_27b) {
    const int64_t share = model.hidden_size / model.attention().heads;
    squared = static_cast<double>(share);
  }
  const double scale = rotary_of(model).query_scale / std::sqrt(head);
  if (std::abs(scale * std::sqrt(squared) - 1) > 1e-6) {
    refuse(target, where, "query_pre_attn_scalar is not " + std::to_string(static_cast<int64_t>(squared)));
  }
  if (model.family != "Gemma2ForCausalLM") return;
  if (model.attention().softcap == 0 || model.head_softcap == 0) {
    refuse(target, where, "attn_logit_softcapping or final_logit_softcapping is null");
  }
}

// What llama.cpp's T5 has written into its code.
void check_t5(const Architecture& model, const LlamaCppArchitecture& target, const std::string& where) {
  constexpr int64_t kMaxDistance = 128;
  const auto& feed_forward = model.layers.front().feed_forward;
  if (model.num_hidden_layers() > 2 * model.encoder_layers()) {  // it has a place for as many as the encoder has
    refuse(target, where, "the decoder has more layers than the encoder");
  }
  if (model.relative->max_distance != kMaxDistance) {
    refuse(target, where, "relative_attention_max_distance is " + std::to_string(model.relative->max_distance));
  }
  if (feed_forward.activation != (feed_forward.gated ? Activation::kGelu : Activation::kRelu)) {
    refuse(target, where, "feed_forward_proj is neither relu nor gated-gelu");
  }
}

void check_family(const Architecture& model, const LlamaCppArchitecture& target, const std::string& where) {
  if (target.name == "t5") check_t5(model, target, where);
  if (target.name == "smollm3") check_turned(model, target, where);
  if (target.name == "gemma2" || target.name == "gemma3") check_gemma(model, target, where);
  if (target.needs_tied_head && !model.tie_word_embeddings) {
    refuse(target, where, "tie_word_embeddings is false: the head is a matrix of its own");
  }
  // Where there is no window, those graphs take one of their own.
  if (target.windows == WindowedLayers::kSameRotary && model.sliding_window() == 0) {
    refuse(target, where, "no layer has a sliding window");
  }
}

}  // namespace

const LlamaCppArchitecture& llama_cpp_architecture(const Architecture& model, const std::string& where) {
  if (model.text_part && model.text_part->model_type.starts_with("qwen")) {
    throw Error(where + ": the text part of " + model.text_part->whole +
                    " cannot be written as GGUF: llama.cpp has an architecture of its own for it",
                "export a folder, and convert that with llama.cpp's convert_hf_to_gguf.py");
  }
  const auto target = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                   [&](const auto& row) { return row.family == model.family; });
  if (target == std::end(kArchitectures)) {
    std::string known;
    for (const LlamaCppArchitecture& row : kArchitectures) known.append(known.empty() ? "" : ", ").append(row.family);
    throw Error(where + ": " + model.family + " cannot be written as GGUF", "the families that can: " + known);
  }
  for (const LayerSpec& layer : model.layers) check_layer(layer, model, *target, where);
  check_stretch(rotary_of(model), *target, where);
  check_windows(model, *target, where);
  check_family(model, *target, where);
  if (model.sliding_window() > 0 && target->windows == WindowedLayers::kIgnored) {
    log_warning(where + ": llama.cpp's '" + std::string(target->name) +
                "' has no sliding window: for texts longer than " + std::to_string(model.sliding_window()) +
                " tokens it computes something else than this model");
  }
  return *target;
}

}  // namespace fathom::gguf
