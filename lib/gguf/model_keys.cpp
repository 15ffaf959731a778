// What llama.cpp's converter writes of a model, after conversion/base.py and its like.
#include "gguf/model_keys.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "arch/rotary_frequencies.h"

namespace fathom::gguf {
namespace {

using arch::Architecture;
using arch::LayerSpec;
using arch::Rotary;

// The first layer that is turned, of those with a window or of those without.
std::optional<Rotary> first_rotary(const Architecture& model, bool windowed) {
  for (const LayerSpec& layer : model.layers) {
    if (layer.attention().rotary && (layer.attention().window > 0) == windowed) return layer.attention().rotary;
  }
  return std::nullopt;
}

// The keys of an architecture, each behind its name.
class Keys {
 public:
  explicit Keys(std::string_view name) : prefix_(std::string(name) + ".") {}

  void add(const char* key, weights::GgufValue value) { keys_.emplace_back(prefix_ + key, std::move(value)); }
  void count(const char* key, int64_t value) { add(key, static_cast<uint32_t>(value)); }
  void real(const char* key, double value) { add(key, static_cast<float>(value)); }
  weights::GgufKeys take() { return std::move(keys_); }

 private:
  std::string prefix_;
  weights::GgufKeys keys_;
};

weights::GgufKeys t5_keys(const Architecture& model, const LlamaCppArchitecture& target, int64_t vocabulary) {
  const LayerSpec& layer = model.layers.front();
  Keys keys(target.name);
  keys.count("context_length", model.max_position_embeddings);
  keys.count("embedding_length", model.hidden_size);
  keys.count("feed_forward_length", layer.feed_forward.width);
  keys.count("block_count", model.encoder_layers());
  keys.count("decoder_block_count", model.num_hidden_layers() - model.encoder_layers());
  keys.count("attention.head_count", layer.attention().heads);
  keys.count("attention.key_length", model.head_dim());
  keys.count("attention.value_length", model.head_dim());
  keys.real("attention.layer_norm_epsilon", model.norm_eps);
  keys.count("attention.relative_buckets_count", model.relative->buckets);
  keys.real("attention.layer_norm_rms_epsilon", model.norm_eps);
  keys.count("decoder_start_token_id", model.encoder->decoder_start_token_id);
  keys.count("vocab_size", vocabulary);
  return keys.take();
}

void add_experts(Keys& keys, const Architecture& model) {
  const arch::Experts* experts = model.experts();
  if (experts == nullptr) return;
  keys.count("expert_count", experts->count);
  keys.count("expert_used_count", experts->per_token);
  keys.count("expert_feed_forward_length", model.layers.front().feed_forward.width);
}

void add_scales(Keys& keys, const Architecture& model, const LlamaCppArchitecture& target) {
  const LayerSpec& layer = model.layers.front();
  if (target.multipliers) {
    keys.real("attention.scale", rotary_of(model).query_scale / std::sqrt(static_cast<double>(model.head_dim())));
    keys.real("embedding_scale", model.embedding_scale);
    keys.real("residual_scale", layer.added_scale);
  }
  if (target.head_scale == HeadScale::kDivides) keys.real("logit_scale", 1 / model.head_scale);
  if (target.head_scale == HeadScale::kMultiplies) keys.real("logit_scale", model.head_scale);
  if (layer.attention().softcap != 0) keys.real("attn_logit_softcapping", layer.attention().softcap);
  if (model.head_softcap != 0) keys.real("final_logit_softcapping", model.head_softcap);
}

void add_yarn(Keys& keys, const arch::YarnRope& yarn, const Rotary& rotary, const LlamaCppArchitecture& target) {
  keys.add("rope.scaling.type", std::string("yarn"));
  keys.real("rope.scaling.factor", yarn.factor);
  keys.count("rope.scaling.original_context_length", yarn.original_positions);
  if (target.yarn_turns) {
    keys.real("rope.scaling.yarn_beta_fast", yarn.fast_turns);
    keys.real("rope.scaling.yarn_beta_slow", yarn.slow_turns);
  }
  // llama.cpp multiplies by YaRN's usual magnitude of its own accord.
  const double beside_usual = rotary.magnitude / (0.1 * std::log(yarn.factor) + 1);
  if (std::abs(beside_usual - 1) > 1e-9) keys.real("rope.scaling.attn_factor", beside_usual);
}

void add_rotary(Keys& keys, const Architecture& model, const LlamaCppArchitecture& target) {
  if (model.rotaries().empty()) return;
  const Rotary rotary = rotary_of(model);
  keys.real("rope.freq_base", rotary.theta);
  keys.count("rope.dimension_count", rotary.width);
  const std::optional<Rotary> windowed = windowed_rotary_of(model);
  if (windowed && target.windows != WindowedLayers::kIgnored) keys.real("rope.freq_base_swa", windowed->theta);
  if (const auto* linear = std::get_if<arch::LinearRope>(&rotary.scaling)) {
    keys.add("rope.scaling.type", std::string("linear"));
    keys.real("rope.scaling.factor", linear->factor);
  } else if (const auto* yarn = std::get_if<arch::YarnRope>(&rotary.scaling)) {
    add_yarn(keys, *yarn, rotary, target);
  } else if (const auto* longrope = std::get_if<arch::LongRope>(&rotary.scaling)) {
    keys.count("rope.scaling.original_context_length", longrope->original_positions);
    keys.real("rope.scaling.attn_factor", rotary.magnitude);
  } else if (rotary.query_growth != 0) {
    keys.count("rope.scaling.original_context_length", rotary.query_growth_positions);
  }
  if (rotary.query_growth != 0) keys.real("attention.temperature_scale", rotary.query_growth);
}

void add_windows(Keys& keys, const Architecture& model) {
  if (model.sliding_window() == 0) return;
  std::vector<bool> windowed;
  for (const LayerSpec& each : model.layers) windowed.push_back(each.attention().window > 0);
  keys.count("attention.sliding_window", model.sliding_window());
  keys.add("attention.sliding_window_pattern", std::move(windowed));
}

std::vector<float> llama3_factors(const Rotary& rotary, const arch::Llama3Rope& scaling) {
  Rotary plain = rotary;
  plain.scaling = std::monostate();
  const auto original = static_cast<double>(scaling.original_positions);
  std::vector<float> factors;
  for (const float frequency : arch::rotary_frequencies(plain)) {
    const double wavelength = 2 * std::numbers::pi / double{frequency};
    const double blend = std::clamp((original / wavelength - scaling.low_frequency_factor) /
                                        (scaling.high_frequency_factor - scaling.low_frequency_factor),
                                    0.0, 1.0);
    factors.push_back(static_cast<float>(1 / ((1 - blend) / scaling.factor + blend)));
  }
  return factors;
}

}  // namespace

Rotary rotary_of(const Architecture& model) {
  const std::optional<Rotary> full = first_rotary(model, /*windowed=*/false);
  return full ? *full : windowed_rotary_of(model).value_or(Rotary());
}

std::optional<Rotary> windowed_rotary_of(const Architecture& model) { return first_rotary(model, /*windowed=*/true); }

weights::GgufKeys model_keys(const Architecture& model, const LlamaCppArchitecture& target, int64_t vocabulary) {
  if (model.encoder) return t5_keys(model, target, vocabulary);
  const LayerSpec& layer = model.layers.front();
  Keys keys(target.name);
  keys.count("block_count", model.num_hidden_layers());
  keys.count("context_length", model.max_position_embeddings);
  keys.count("embedding_length", model.hidden_size);
  keys.count("feed_forward_length", layer.feed_forward.width);
  keys.count("attention.head_count", layer.attention().heads);
  keys.count("attention.head_count_kv", layer.attention().key_value_heads);
  keys.count("attention.key_length", model.head_dim());
  keys.count("attention.value_length", model.head_dim());
  keys.real(model.centred_norms ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", model.norm_eps);
  keys.count("vocab_size", vocabulary);
  add_experts(keys, model);
  add_scales(keys, model, target);
  add_rotary(keys, model, target);
  add_windows(keys, model);
  return keys.take();
}

std::vector<RopeFactors> rope_factors(const Architecture& model) {
  const Rotary rotary = rotary_of(model);
  if (const auto* llama3 = std::get_if<arch::Llama3Rope>(&rotary.scaling)) {
    return {{"rope_freqs.weight", llama3_factors(rotary, *llama3)}};
  }
  const auto* longrope = std::get_if<arch::LongRope>(&rotary.scaling);
  if (longrope == nullptr) return {};
  const auto in_fp32 = [](const std::vector<double>& factors) {
    return std::vector<float>(factors.begin(), factors.end());
  };
  return {{"rope_factors_long.weight", in_fp32(longrope->long_factors)},
          {"rope_factors_short.weight", in_fp32(longrope->short_factors)}};
}

}  // namespace fathom::gguf
