#include "tests/plan/matrix_models.h"

#include <algorithm>
#include <array>

#include "base/rounding.h"

namespace fathom::plan::testing {
namespace {

int64_t odd_between(SplitMix64& random, int64_t low, int64_t high) {
  return (low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)))) | 1;
}

void set_gpt2(arch::Architecture& architecture, arch::LayerSpec& layer) {
  architecture.centred_norms = architecture.biased_norms = architecture.learned_positions = true;
  architecture.max_position_embeddings = 300;
  architecture.dropout = architecture.embedding_dropout = 0.1;
  layer.naming = arch::Naming::kGpt2;
  layer.attention().input_bias = layer.attention().output_bias = layer.feed_forward.bias = true;
  layer.attention().fused = true;
  layer.feed_forward.gated = false;
  layer.feed_forward.activation = Activation::kGelu;
}

void set_family(arch::Architecture& architecture, arch::LayerSpec& layer, size_t level) {
  constexpr std::array kFamilies = {"LlamaForCausalLM",           "LlamaForCausalLM",
                                    "Qwen2ForCausalLM",           "Qwen3ForCausalLM",
                                    "Olmo2ForCausalLM",           "T5ForConditionalGeneration",
                                    "T5ForConditionalGeneration", "Qwen3MoeForCausalLM",
                                    "Gemma3ForCausalLM",          "Phi3ForCausalLM",
                                    "GraniteForCausalLM",         "Gemma2ForCausalLM",
                                    "Cohere2ForCausalLM",         "GPT2LMHeadModel",
                                    "SeedOssForCausalLM",         "ArceeForCausalLM",
                                    "HunYuanDenseV1ForCausalLM",  "Lfm2ForCausalLM",
                                    "Qwen3_5ForCausalLM",         "GptOssForCausalLM",
                                    "Gemma4ForCausalLM",          "Glm4MoeForCausalLM",
                                    "Qwen2MoeForCausalLM",        "DeepseekV3ForCausalLM"};
  architecture.family = kFamilies.at(level);
  layer.attention().input_bias = level == 1 || level == 2 || level == kSeedOss || level == kGptOss;
  layer.attention().output_bias = layer.feed_forward.bias = level == 1;
  if (level == 3 || level == kWithExperts || level == kGemma3 || level == kHunyuan || level == kLfm2 ||
      level == kQwen35 || level == kGemma4)
    layer.attention().query_key_norm = arch::QueryKeyNorm::kEachHead;
  if (level == 4) layer.attention().query_key_norm = arch::QueryKeyNorm::kAllHeads;
  if (level == 4) layer.norms = arch::NormPlacement::kAfter;
  if (level == kGemma2 || level == kGemma3 || level == kGemma4) {
    layer.norms = arch::NormPlacement::kBoth;
    layer.feed_forward.activation = Activation::kGelu;
    architecture.norm_offset = level == kGemma4 ? 0 : 1;
    architecture.embedding_scale = 6;
  }
  if (level == kGemma4) {
    layer.attention().value_norm = layer.scalar = true;
    architecture.head_softcap = 30;
  }
  if (level == kGemma2) {
    layer.attention().softcap = 50;
    architecture.head_softcap = 30;
  }
  if (level == kCohere2) {
    architecture.centred_norms = layer.parallel = true;
    architecture.head_scale = 0.25;
  }
  if (level == kGpt2) set_gpt2(architecture, layer);
  if (level == kSeedOss) architecture.dropout = 0.1;
  if (level == kArcee) {
    layer.feed_forward.gated = false;
    layer.feed_forward.activation = Activation::kSquaredRelu;
  }
  if (level == kHunyuan) {
    layer.attention().norms_turned = true;
    layer.naming = arch::Naming::kHunyuan;
  }
  if (level == kLfm2) layer.naming = arch::Naming::kLfm2;
  if (level == kQwen35) {
    layer.naming = arch::Naming::kQwen35;
    layer.attention().output_gate = true;
    architecture.norm_offset = 1;
  }
  if (level == kPhi3) layer.attention().fused = layer.feed_forward.fused = true;
  if (level == kGranite) {
    layer.added_scale = 0.25;
    architecture.embedding_scale = 12;
    architecture.head_scale = 0.125;
  }
  if (!routes(level)) return;
  arch::Experts experts = {.count = 5, .per_token = 2, .normalised = true};
  if (level == kQwen2Moe) {
    experts.named_by_modules = false;
    experts.shared_width = 36;
  }
  if (level == kGlmMoe) {
    layer.naming = arch::Naming::kGlmMoe;
    experts.count = 6;
    experts.shared_width = 20;
    experts.shared_gated = false;
    experts.scores = {.sigmoid = true, .corrected = true, .groups = 3, .open_groups = 2, .scale = 2.5};
  }
  if (level == kGptOss) {
    layer.naming = arch::Naming::kGptOss;
    layer.attention().sinks = layer.attention().output_bias = experts.biased = true;
    experts.files = arch::ExpertFiles::kTurned;
    experts.named_by_modules = false;
    experts.clamped = ClampedGate{};
  }
  layer.feed_forward.experts = experts;
  if (level != kGlmMoe) architecture.router_aux_loss_coef = 0.01;
}

// As Mistral, or as Qwen2 has it: from some layer on.
void set_window(std::vector<arch::LayerSpec>& layers, int64_t window, SplitMix64& random) {
  size_t first = 0;
  if (window > 0 && random.below(2) != 0) first = static_cast<size_t>(random.below(layers.size()));
  for (; first < layers.size(); ++first) layers[first].attention().window = window;
}

bool has_larger_heads(const std::vector<arch::LayerSpec>& layers, size_t number) {
  return (layers.size() - number) % 2 == 1;
}

// Gemma 4's, of the last layer and each second one before it, whose keys are its values.
void set_larger_heads(std::vector<arch::LayerSpec>& layers, bool groups) {
  for (size_t number = 0; number < layers.size(); ++number) {
    if (!has_larger_heads(layers, number)) continue;
    arch::Attention& attention = layers[number].attention();
    if (!groups) attention.head_dim *= 2;
    attention.key_value_heads = 1;
    attention.keys_are_values = layers.size() > 1;  // adapters are put on values, too
  }
}

// All numbers of each head are turned, but half of Phi-3's, none of GPT-2's, and none in every second layer as SmolLM3
// and Cohere 2 have some; Gemma 3 turns every second layer otherwise, and scales queries.
void set_positions(std::vector<arch::LayerSpec>& layers, size_t level) {
  if (level == kGpt2) return;
  for (size_t number = 0; number < layers.size(); ++number) {
    arch::Attention& attention = layers[number].attention();
    const bool second = number % 2 == 1;
    attention.rotary = arch::Rotary{.width = attention.head_dim};
    if (level == kPhi3 || level == kQwen35) attention.rotary->width = attention.head_dim / 4 * 2;
    if (level == kGemma3 || level == kGemma4) attention.rotary->query_scale = 0.5;
    if (level == kGemma4 && has_larger_heads(layers, number)) attention.rotary->still_pairs = attention.head_dim / 4;
    if (level == kGemma3 && second) attention.rotary->theta = 500;
    if (level == kLatent) attention.rotary->still_front = attention.head_dim - attention.latent->turned;
    if ((level == kGranite || level == kCohere2) && second) attention.rotary.reset();
  }
}

// In the place of attention, but in one layer.
void set_mixers(std::vector<arch::LayerSpec>& layers, const arch::Mixer& mixer, SplitMix64& random) {
  const auto attends = static_cast<size_t>(random.below(layers.size()));
  for (size_t number = 0; number < layers.size(); ++number) {
    if (number != attends) layers[number].mixer = mixer;
  }
}

// Of up to three value heads for a key head, and sizes of whole groups where INT4 needs them.
arch::GatedDelta draw_delta(bool groups, SplitMix64& random) {
  const auto of = [&](int64_t most) { return static_cast<int64_t>(1 + random.below(static_cast<uint64_t>(most))); };
  arch::GatedDelta delta{.key_heads = of(3), .taps = of(4)};
  delta.value_heads = delta.key_heads * of(3);
  delta.key_dim = groups ? 32 : 4 + of(20);
  delta.value_dim = groups ? 32 : 4 + of(20);
  return delta;
}

// Two numbers of each head are turned, and values may be narrower than keys; queries may be made of the stream.
arch::LatentHeads draw_latent(int64_t head_dim, bool groups, SplitMix64& random) {
  const auto of = [&](int64_t most) { return static_cast<int64_t>(1 + random.below(static_cast<uint64_t>(most))); };
  const int64_t queries = of(2) == 1 ? 0 : 4 + of(30), keys = 4 + of(30), values = of(head_dim);
  if (groups) return {.query_rank = 32, .rank = 64, .turned = 2, .value_dim = head_dim};
  return {.query_rank = queries, .rank = keys, .turned = 2, .value_dim = values};
}

// Rows of whole groups, as INT4 needs them.
void fit_groups(arch::Architecture& architecture, arch::LayerSpec& layer) {
  constexpr int64_t kGroup = 32;
  layer.attention().head_dim = kGroup;
  architecture.hidden_size = round_up(architecture.hidden_size, kGroup);
  layer.feed_forward.width = round_up(layer.feed_forward.width, kGroup);
}

// The decoder's layers behind those of an encoder that may have one less, of heads whose sum need not be the width.
void set_encoder(arch::Architecture& architecture, arch::LayerSpec layer, const Levels& levels, SplitMix64& random) {
  const int64_t decoder_layers = number_of(levels, kLayers);
  const int64_t encoder_layers = std::max<int64_t>(1, decoder_layers - static_cast<int64_t>(random.below(2)));
  architecture.family = "T5ForConditionalGeneration";
  architecture.encoder = arch::Encoder{encoder_layers, 0};
  architecture.relative = arch::RelativePositions{32, 128};
  layer.naming = arch::Naming::kT5;
  layer.attention().scaled = false;
  layer.feed_forward.gated = levels[kFamily] == kFlanT5;
  layer.feed_forward.activation = layer.feed_forward.gated ? Activation::kGelu : Activation::kRelu;
  if (levels[kFamily] == kFlanT5) architecture.dropout = architecture.embedding_dropout = 0.1;
  if (levels[kFamily] == kT5) architecture.head_scale = 0.125;
  architecture.layers.assign(static_cast<size_t>(encoder_layers), layer);
  layer.cross = true;
  architecture.layers.insert(architecture.layers.end(), static_cast<size_t>(decoder_layers), layer);
}

}  // namespace

arch::Architecture architecture_of(const Levels& levels, SplitMix64& random) {
  constexpr std::array<int64_t, 5> kHeadDims = {6, 8, 10, 16, 20};  // even, as rotary positions need
  arch::Architecture architecture;
  arch::LayerSpec layer;
  arch::Attention& attention = layer.attention();
  if (!encodes(levels)) set_family(architecture, layer, levels[kFamily]);
  attention.head_dim = kHeadDims[random.below(kHeadDims.size())];
  const auto groups = static_cast<int64_t>(2 + random.below(2)), in_group = static_cast<int64_t>(2 + random.below(2));
  attention.heads = groups * in_group;
  const std::array<int64_t, 3> key_value_heads = {attention.heads, groups, 1};
  attention.key_value_heads = key_value_heads[levels[kHeads]];
  architecture.hidden_size = attention.queries();
  const bool of_heads = levels[kFamily] == kGpt2;
  if (!of_heads && random.below(4) == 0)
    architecture.hidden_size = odd_between(random, 24, 150);  // not heads x head_dim
  layer.feed_forward.width = odd_between(random, 2 * architecture.hidden_size, 4 * architecture.hidden_size);
  const auto vocabulary = int64_t{100} << random.below(6);
  architecture.vocab_size = odd_between(random, vocabulary, 2 * vocabulary);
  if (levels[kQat] >= kInt4Qat) fit_groups(architecture, layer);
  if (levels[kFamily] == kLatent) {
    attention.latent = draw_latent(attention.head_dim, levels[kQat] >= kInt4Qat, random);
  }
  architecture.layers.assign(static_cast<size_t>(number_of(levels, kLayers)), layer);
  architecture.tie_word_embeddings = is_on(levels, kTied);
  if (encodes(levels)) {
    set_encoder(architecture, layer, levels, random);
    return architecture;
  }
  if (levels[kFamily] == kGemma4) set_larger_heads(architecture.layers, levels[kQat] >= kInt4Qat);
  set_positions(architecture.layers, levels[kFamily]);
  set_window(architecture.layers, number_of(levels, kWindow), random);
  if (levels[kFamily] == kLfm2) {
    set_mixers(architecture.layers, arch::ShortConvolution{.taps = static_cast<int64_t>(1 + random.below(4))}, random);
  }
  if (levels[kFamily] == kQwen35) {
    set_mixers(architecture.layers, draw_delta(levels[kQat] >= kInt4Qat, random), random);
  }
  return architecture;
}

}  // namespace fathom::plan::testing
