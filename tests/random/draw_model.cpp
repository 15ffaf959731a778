// Shapes of all families, small and awkward, a few of everyday width; lengths as data have them.
#include "tests/random/draw_model.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "arch/families.h"

namespace fathom::random {
namespace {

void draw_heads(Json& model, Dice& dice) {
  const auto head_dim = dice.one_of<int64_t>({2, 4, 6, 8, 10, 16, 20, 32, 40, 64, 64, 128});
  const auto groups = dice.between(1, 3), in_group = dice.between(1, 3);
  const int64_t heads = head_dim >= 64 ? std::min<int64_t>(groups * in_group, 4) : groups * in_group;
  const int64_t keys = heads == groups * in_group ? dice.one_of<int64_t>({heads, groups, 1}) : 1;
  model["num_attention_heads"] = heads;
  model["num_key_value_heads"] = keys;
  // A width that is not heads x head_dim needs the key.
  const bool own_width = dice.chance(0.4);
  const int64_t width = own_width ? dice.between(9, 300) : heads * head_dim;
  model["hidden_size"] = width;
  if (own_width || dice.chance(0.5)) model["head_dim"] = head_dim;
  model["intermediate_size"] = dice.between(width, 4 * width);
  if (dice.chance(0.3)) {  // whole groups of 32, as INT4 has them
    model["head_dim"] = 32;
    model["hidden_size"] = 32 * dice.between(1, 6);
    model["intermediate_size"] = 32 * dice.between(1, 12);
  }
}

// A shape of everyday width, of few layers.
void draw_usual_size(Json& model, Dice& dice) {
  const int64_t head_dim = dice.one_of<int64_t>({64, 64, 128}), heads = dice.between(2, 8);
  const int64_t keys = heads % 4 == 0 ? dice.one_of<int64_t>({heads, heads / 4}) : heads;
  model["num_attention_heads"] = heads;
  model["num_key_value_heads"] = keys;
  model["head_dim"] = head_dim;
  model["hidden_size"] = heads * head_dim;
  model["intermediate_size"] = heads * head_dim * dice.between(2, 4);
  model["vocab_size"] = dice.one_of<int64_t>({2048, 8192, 32000});
  model["num_hidden_layers"] = 1;
}

void draw_window(Json& model, const arch::Family& family, Dice& dice) {
  const int64_t window = dice.one_of<int64_t>({1, 7, 16, 17, 64, 90, 256});
  if (family.windows == arch::Windows::kEveryLayer || family.windows == arch::Windows::kNamedLayers) {
    model["sliding_window"] = dice.chance(0.2) ? Json(nullptr) : Json(window);
  } else if (family.windows == arch::Windows::kEveryIfAsked) {
    model["use_sliding_window"] = dice.chance(0.5);
    model["sliding_window"] = window;
  } else if (family.windows == arch::Windows::kChosenLayers && dice.chance(0.5)) {
    model["use_sliding_window"] = true;
    model["sliding_window"] = window;
    model["max_window_layers"] = dice.between(0, model["num_hidden_layers"].get<int64_t>());
  }
}

// Odd counts, all of them chosen or one; what routers add to the loss.
void draw_experts(Json& model, const arch::Family& family, Dice& dice) {
  if (family.experts == arch::ExpertKeys::kNone) return;
  const int64_t count = dice.between(1, 9);
  model[family.experts == arch::ExpertKeys::kMixtral ? "num_local_experts" : "num_experts"] = count;
  model["num_experts_per_tok"] = dice.between(1, std::min<int64_t>(count, 4));
  if (family.experts != arch::ExpertKeys::kMixtral) model["norm_topk_prob"] = dice.chance(0.5);
  model["output_router_logits"] = dice.chance(0.4);
  if (family.experts == arch::ExpertKeys::kQwen3Moe) {
    model["moe_intermediate_size"] = dice.between(8, 96);
    model["decoder_sparse_step"] = dice.one_of<int64_t>({1, 1, 2});
    if (dice.chance(0.3)) model["mlp_only_layers"] = {dice.between(0, 3)};
  } else {
    model["intermediate_size"] = dice.between(8, 160);
  }
}

}  // namespace

Json draw_model(Dice& dice) {
  std::vector<arch::Family> decoders;
  std::copy_if(arch::families().begin(), arch::families().end(), std::back_inserter(decoders),
               [](const arch::Family& family) { return !family.is_encoder_decoder; });
  const arch::Family family = dice.one_of(decoders);
  Json model = {{"architectures", {family.name}}, {"model_type", family.model_type}};
  model["vocab_size"] = dice.one_of<int64_t>({101, 256, 301, 301, 512, 1013, 2048});
  model["num_hidden_layers"] = dice.between(1, 4);
  draw_heads(model, dice);
  if (dice.chance(0.05)) draw_usual_size(model, dice);
  if (family.head_dim != 0 && !model.contains("head_dim") && dice.chance(0.8)) model["head_dim"] = 16;
  if (family.input_bias == arch::Bias::kByKey) model["attention_bias"] = dice.chance(0.2);
  if (family.feed_forward_bias == arch::Bias::kByKey) model["mlp_bias"] = dice.chance(0.2);
  draw_window(model, family, dice);
  draw_experts(model, family, dice);
  if (dice.chance(0.1)) {
    model["rope_parameters"] = {{"rope_type", "llama3"},   {"rope_theta", 500000.0},
                                {"factor", 8.0},           {"low_freq_factor", 1.0},
                                {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 64}};
  }
  model["max_position_embeddings"] = dice.one_of<int64_t>({64, 512, 512, 4096});
  model["tie_word_embeddings"] = dice.chance(0.5);
  model["bos_token_id"] = nullptr;
  model["eos_token_id"] = dice.chance(0.5) ? Json(2) : Json(nullptr);
  model["dtype"] = dice.one_of<std::string>({"float32", "bfloat16", "bfloat16", "float16"});
  return model;
}

std::vector<Sample> draw_samples(int64_t count, int64_t longest, Dice& dice) {
  const int kind = static_cast<int>(dice.between(0, 4));
  const int64_t other = dice.between(2, longest);
  std::vector<Sample> samples;
  const bool every_token = dice.chance(0.3);
  for (int64_t i = 0; i < count; ++i) {
    Sample sample;
    if (kind == 0) sample.length = longest;
    if (kind == 1) sample.length = dice.between(2, longest);
    if (kind == 2)
      sample.length = std::max<int64_t>(
          2, static_cast<int64_t>(static_cast<double>(longest) * dice.uniform() * dice.uniform() * dice.uniform()));
    if (kind == 3) sample.length = dice.chance(0.5) ? longest : other;
    if (kind == 4) sample.length = dice.between(2, std::max<int64_t>(2, longest / 8));
    sample.counted = every_token ? sample.length : dice.between(1, sample.length);
    samples.push_back(sample);
  }
  if (kind >= 2) samples[dice.below(samples.size())].length = longest;
  return samples;
}

}  // namespace fathom::random
