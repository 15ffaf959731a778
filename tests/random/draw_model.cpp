// Shapes of all families, small and awkward, a few of everyday width; lengths as data have them.
#include "tests/random/draw_model.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "arch/families.h"
#include "base/error.h"
#include "base/json_value.h"

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
    if (family.sliding_window_pattern && dice.chance(0.5)) model["sliding_window_pattern"] = dice.between(1, 3);
  } else if (family.windows == arch::Windows::kEveryIfAsked) {
    model["use_sliding_window"] = dice.chance(0.5);
    model["sliding_window"] = window;
  } else if (family.windows == arch::Windows::kChosenLayers && dice.chance(0.5)) {
    model["use_sliding_window"] = true;
    model["sliding_window"] = window;
    model["max_window_layers"] = dice.between(0, model["num_hidden_layers"].get<int64_t>());
  }
}

// What the gate is clamped to, and experts in MXFP4, as published folders have them.
void draw_gpt_oss(Json& model, Dice& dice) {
  if (dice.chance(0.5)) model["swiglu_limit"] = dice.one_of<double>({0.01, 1.5, 7});
  if (dice.chance(0.3)) model["swiglu_alpha"] = dice.one_of<double>({0, 1, 1.702});
  if (!dice.chance(0.35)) return;
  if (!model.contains("head_dim")) model["head_dim"] = 16;  // of another width than the one below
  model["hidden_size"] = 32 * dice.between(1, 6);
  model["intermediate_size"] = 32 * dice.between(1, 5);
  model["quantization_config"] = {{"quant_method", "mxfp4"}};
}

// In up to three groups, with a part of one expert's width or more beside them.
void draw_deepseeks(Json& model, const arch::Family& family, Dice& dice) {
  for (const char* key : {"num_experts", "norm_topk_prob", "output_router_logits"}) model.erase(key);
  const int64_t groups = dice.one_of<int64_t>({1, 1, 2, 3}), of_group = dice.between(2, 4),
                open = dice.between(1, groups);
  model["n_group"] = groups;
  model["topk_group"] = open;
  model["n_routed_experts"] = groups * of_group;
  model["num_experts_per_tok"] = dice.between(1, std::min<int64_t>(open * of_group, 4));
  model["n_shared_experts"] = dice.between(1, 2);
  model["moe_intermediate_size"] = dice.between(8, 96);
  if (family.experts != arch::ExpertKeys::kGlm4MoeLite) {
    model["first_k_dense_replace"] = dice.between(0, 1);
  } else if (dice.chance(0.7)) {
    Json types = Json::array();
    for (auto layers = model["num_hidden_layers"].get<int64_t>(); layers > 0; --layers) {
      types.push_back(dice.one_of<std::string>({"dense", "sparse", "sparse"}));
    }
    model["mlp_layer_types"] = types;
  }
  if (dice.chance(0.5)) model["norm_topk_prob"] = dice.chance(0.5);
  if (dice.chance(0.5)) model["routed_scaling_factor"] = 2.5;
  if (family.query_key_norm_by_key) model["use_qk_norm"] = dice.chance(0.5);
}

// Odd counts, all of them chosen or one; what routers add to the loss.
void draw_experts(Json& model, const arch::Family& family, Dice& dice) {
  if (family.experts == arch::ExpertKeys::kNone) return;
  const int64_t count = dice.between(1, 9);
  const bool gpt_oss = family.experts == arch::ExpertKeys::kGptOss;
  const bool always_normalised =
      gpt_oss || family.experts == arch::ExpertKeys::kMixtral || family.experts == arch::ExpertKeys::kGraniteMoe;
  model[always_normalised ? "num_local_experts" : "num_experts"] = count;
  model["num_experts_per_tok"] = dice.between(1, std::min<int64_t>(count, 4));
  if (!always_normalised) model["norm_topk_prob"] = dice.chance(0.5);
  model["output_router_logits"] = dice.chance(0.4);
  if (family.latent || family.experts == arch::ExpertKeys::kGlm4Moe) return draw_deepseeks(model, family, dice);
  const bool next = family.experts == arch::ExpertKeys::kQwen3Next;
  const bool shares =
      next || family.experts == arch::ExpertKeys::kQwen2Moe || family.experts == arch::ExpertKeys::kQwen35Moe;
  if (shares) model["shared_expert_intermediate_size"] = dice.between(8, 96);
  if (family.experts == arch::ExpertKeys::kQwen35Moe) {
    model["moe_intermediate_size"] = dice.between(8, 96);
    model.erase("intermediate_size");
  } else if (next || family.experts == arch::ExpertKeys::kQwen3Moe || family.experts == arch::ExpertKeys::kQwen2Moe) {
    model["moe_intermediate_size"] = dice.between(8, 96);
    model["decoder_sparse_step"] = dice.one_of<int64_t>({1, 1, 2});
    if (dice.chance(0.3)) model["mlp_only_layers"] = {dice.between(0, 3)};
  } else {
    model["intermediate_size"] = dice.between(8, 160);
  }
  if (gpt_oss) draw_gpt_oss(model, dice);
}

// As T5 has it: two stacks, heads whose sum need not be the width, distances in the place of positions.
void draw_encoder_decoder(Json& model, Dice& dice) {
  const bool groups = dice.chance(0.3);  // whole groups of 32, as INT4 has them
  model["d_model"] = groups ? 32 * dice.between(1, 6) : dice.between(9, 200);
  model["d_kv"] = groups ? 32 : dice.one_of<int64_t>({1, 3, 4, 6, 8, 16, 20, 32, 64, 64});
  model["d_ff"] = groups ? 32 * dice.between(1, 12) : dice.between(9, 500);
  model["num_heads"] = dice.between(1, 6);
  model["num_layers"] = dice.between(1, 3);
  if (dice.chance(0.05)) {  // everyday width
    model.update({{"d_model", 512}, {"d_kv", 64}, {"d_ff", 1024}, {"num_heads", 6}, {"num_layers", 1}});
    model["vocab_size"] = dice.one_of<int64_t>({2048, 8192, 32128});
  }
  if (dice.chance(0.6)) model["num_decoder_layers"] = dice.between(1, 3);
  if (dice.chance(0.8)) {
    model["feed_forward_proj"] =
        dice.one_of<std::string>({"relu", "gelu_new", "gated-gelu", "gated-gelu", "gated-gelu_new", "gated-silu"});
  }
  if (dice.chance(0.5)) {
    model["relative_attention_num_buckets"] = dice.one_of<int64_t>({4, 7, 8, 11, 32});
    model["relative_attention_max_distance"] = dice.one_of<int64_t>({20, 23, 128});
  }
  if (dice.chance(0.7)) model["dropout_rate"] = dice.one_of<double>({0, 0, 0.1, 0.3});
  if (dice.chance(0.2)) model["scale_decoder_outputs"] = dice.chance(0.5);
  if (dice.chance(0.5)) model["decoder_start_token_id"] = dice.between(0, 4);
}

void draw_gpt2(Json& model, Dice& dice) {
  const bool groups = dice.chance(0.3);  // whole groups of 32, as INT4 has them
  const int64_t heads = dice.between(1, 6);
  model["n_head"] = heads;
  model["n_embd"] = heads * (groups ? 32 : dice.one_of<int64_t>({1, 3, 4, 8, 16, 20, 64}));
  model["n_layer"] = dice.between(1, 4);
  if (dice.chance(0.6)) model["n_inner"] = groups ? 32 * dice.between(1, 12) : dice.between(9, 500);
  model["n_positions"] = dice.one_of<int64_t>({512, 512, 4096});
  const auto rate = dice.one_of<double>({0, 0, 0.1, 0.3});
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) model[key] = rate;
}

// Convolutions in the place of attention, in any layers but one.
void draw_lfm2(Json& model, Dice& dice) {
  const auto layers = model["num_hidden_layers"].get<int64_t>(), attends = dice.between(0, layers - 1);
  Json attending = Json::array(), types = Json::array();
  for (int64_t layer = 0; layer < layers; ++layer) {
    const bool attends_too = layer == attends || dice.chance(0.3);
    if (attends_too) attending.push_back(layer);
    types.push_back(attends_too ? "full_attention" : "conv");
  }
  dice.chance(0.5) ? model["full_attn_idxs"] = attending : model["layer_types"] = types;
  model["conv_L_cache"] = dice.one_of<int64_t>({1, 2, 3, 3, 3, 4, 9});
  model["block_auto_adjust_ff_dim"] = dice.chance(0.4);
  model["block_multiple_of"] = 32;
  if (dice.chance(0.5)) model["norm_eps"] = 1e-3;
}

// Of the layers that there may be those that attend, without experts.
void draw_granite_hybrid(Json& model) {
  model["layer_types"] = std::vector<std::string>(model["num_hidden_layers"].get<size_t>(), "attention");
  model["num_local_experts"] = 0;
  model["position_embedding_type"] = "rope";
  model["shared_intermediate_size"] = model["intermediate_size"];
}

void draw_biases(Json& model, const arch::Family& family, Dice& dice) {
  const auto draw = [&](arch::Bias bias, const char* key) {
    if (bias == arch::Bias::kByKey || bias == arch::Bias::kByKeyElseTrue) model[key] = dice.chance(0.2);
  };
  draw(family.input_bias, family.input_bias_key);
  if (family.output_bias_key != std::string(family.input_bias_key)) draw(family.output_bias, family.output_bias_key);
  draw(family.feed_forward_bias, family.feed_forward_bias_key);
}

// States in the place of attention, in any layers but one; up to three value heads for a key head.
void draw_qwen35(Json& model, Dice& dice) {
  const auto layers = model["num_hidden_layers"].get<int64_t>(), attends = dice.between(0, layers - 1);
  const bool groups = model["hidden_size"].get<int64_t>() % 32 == 0;  // as INT4 has them
  Json types = Json::array();
  for (int64_t layer = 0; layer < layers; ++layer) {
    types.push_back(layer == attends || dice.chance(0.3) ? "full_attention" : "linear_attention");
  }
  dice.chance(0.3) ? model["full_attention_interval"] = dice.between(1, layers) : model["layer_types"] = types;
  const int64_t keys = dice.between(1, 4);
  model["linear_num_key_heads"] = keys;
  model["linear_num_value_heads"] = keys * dice.between(1, 3);
  model["linear_key_head_dim"] = groups ? 32 : dice.between(1, 40);
  model["linear_value_head_dim"] = groups ? 32 : dice.one_of<int64_t>({1, 7, 16, 33, 128});
  model["linear_conv_kernel_dim"] = dice.one_of<int64_t>({1, 2, 4, 4, 4, 9});
}

// Of the layers that see everything, heads of another size, whose keys may be its values.
void draw_gemma4(Json& model, Dice& dice) {
  const auto layers = model["num_hidden_layers"].get<int64_t>(), heads = model["num_attention_heads"].get<int64_t>();
  const bool groups = model["hidden_size"].get<int64_t>() % 32 == 0;  // as INT4 has them
  Json types = Json::array();
  for (int64_t layer = 0; layer < layers; ++layer) {
    types.push_back(dice.chance(0.5) ? "full_attention" : "sliding_attention");
  }
  if (dice.chance(0.8)) model["layer_types"] = types;
  model["global_head_dim"] = groups ? 32 : dice.one_of<int64_t>({2, 6, 16, 40, 64, 512});
  model["attention_k_eq_v"] = dice.chance(0.6);
  if (dice.chance(0.7)) model["num_global_key_value_heads"] = dice.one_of<int64_t>({1, heads});
  model["hidden_size_per_layer_input"] = 0;
  model["sliding_window"] = dice.one_of<int64_t>({1, 7, 16, 17, 64, 90, 256});
  model["final_logit_softcapping"] = dice.one_of<Json>({nullptr, 5.0, 30.0});
  const Json full = {{"rope_type", "proportional"},
                     {"rope_theta", 1e6},
                     {"partial_rotary_factor", dice.one_of<double>({0.25, 0.5, 1})}};
  const Json sliding = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  if (dice.chance(0.7)) model["rope_parameters"] = {{"full_attention", full}, {"sliding_attention", sliding}};
}

// Narrow rows of any width, queries of the stream now and then, values as wide as keys or narrower.
void draw_latent(Json& model, Dice& dice) {
  const bool groups = model["hidden_size"].get<int64_t>() % 32 == 0;  // as INT4 has them
  const auto rank = [&] { return groups ? 32 * dice.between(1, 3) : dice.between(1, 60); };
  const auto still = dice.one_of<int64_t>({2, 6, 16, 32, 64}), turned = dice.one_of<int64_t>({2, 4, 10, 16, 32});
  model.erase("head_dim");
  model["num_key_value_heads"] = model["num_attention_heads"];
  model["q_lora_rank"] = dice.chance(0.3) ? Json(nullptr) : Json(rank());
  model["kv_lora_rank"] = rank();
  model["qk_nope_head_dim"] = still;
  model["qk_rope_head_dim"] = turned;
  model["v_head_dim"] = groups ? 32 : dice.chance(0.3) ? still + turned : dice.between(1, still + turned);
  if (groups) model["qk_nope_head_dim"] = 32;
}

// How positions are stretched, and how many numbers of a head they turn.
void draw_positions(Json& model, const arch::Family& family, Dice& dice) {
  const int64_t head_dim = family.latent                ? model["qk_rope_head_dim"].get<int64_t>()
                           : model.contains("head_dim") ? model["head_dim"].get<int64_t>()
                           : family.head_dim != 0
                               ? family.head_dim
                               : model["hidden_size"].get<int64_t>() / model["num_attention_heads"].get<int64_t>();
  const bool half = family.rotary.width_share && head_dim % 4 == 0 && dice.chance(0.6);
  if (family.rotary.width_share) model["partial_rotary_factor"] = half ? 0.5 : 1.0;
  if (family.rotary.unturned_every > 0 && dice.chance(0.5)) model["no_rope_layer_interval"] = dice.between(1, 3);
  if (!dice.chance(0.25)) return;
  Json rope = {{"rope_theta", 500000.0}, {"factor", 8.0}, {"original_max_position_embeddings", 64}};
  rope["rope_type"] = dice.one_of<std::string>({"llama3", "linear", "yarn", "longrope"});
  if (family.rotary.dynamic_by_alpha && head_dim > 2 && dice.chance(0.5)) {
    rope.update({{"rope_type", "dynamic"}, {"alpha", 1000.0}});
  }
  if (family.rotary.longrope_by_any_name && rope["rope_type"] == "yarn") rope["rope_type"] = "longrope";
  if (rope["rope_type"] == "llama3") rope.update({{"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}});
  if (rope["rope_type"] == "longrope") {
    const auto pairs = static_cast<size_t>(head_dim / (half ? 4 : 2));
    rope["short_factor"] = std::vector<double>(pairs, 1.5);
    rope["long_factor"] = std::vector<double>(pairs, 6.0);
  }
  if (family.rotary.query_growth != 0) rope["llama_4_scaling_beta"] = 0.2;
  if (family.rotary.corrects_scores && dice.chance(0.5)) rope["mscale"] = rope["mscale_all_dim"] = 1.0;
  model[family.rotary.sliding_theta ? "rope_scaling" : "rope_parameters"] = rope;
}

void draw_scales(Json& model, const arch::Family& family, Dice& dice) {
  if (family.dropout != 0) {
    model["attention_dropout"] = model["residual_dropout"] = dice.one_of<double>({0, 0, 0.1, 0.3});
  }
  if (family.query_pre_attn_scalar != 0 && dice.chance(0.7)) model["query_pre_attn_scalar"] = dice.between(1, 64);
  if (family.attn_logit_softcapping != 0 && dice.chance(0.7)) {
    model["attn_logit_softcapping"] = dice.one_of<Json>({nullptr, 2.0, 50.0});
    model["final_logit_softcapping"] = dice.one_of<Json>({nullptr, 5.0, 30.0});
  }
  if (!family.multipliers) return;
  for (const char* key : {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"}) {
    if (dice.chance(0.7)) model[key] = dice.one_of<double>({0.25, 0.7, 3.0});
  }
}

// FP8 in blocks, as published folders have it, where all rows are whole blocks once the widths are.
void draw_fp8_blocks(Json& model, Dice& dice) {
  if (model.contains("quantization_config") || model["num_hidden_layers"] > 2) return;
  Json wide = model;
  const int64_t heads = 4 * dice.between(1, 2);
  for (const char* key : {"hidden_size", "intermediate_size", "moe_intermediate_size",
                          "shared_expert_intermediate_size", "shared_intermediate_size"}) {
    if (wide.contains(key)) wide[key] = 128 * dice.between(1, 2);
  }
  wide.update(
      {{"head_dim", 32}, {"num_attention_heads", heads}, {"num_key_value_heads", dice.one_of<int64_t>({1, 2, heads})}});
  if (wide.contains("kv_lora_rank")) {
    wide.erase("head_dim");
    wide.update({{"q_lora_rank", 128}, {"kv_lora_rank", 128}, {"v_head_dim", 32}, {"num_key_value_heads", heads}});
  }
  wide["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  try {
    arch::parse_architecture(wide, "config.json");
    model = std::move(wide);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a family with rows of other widths stays as it is
  }
}

}  // namespace

Json draw_model(Dice& dice) {
  const arch::Family family = dice.one_of(arch::families());
  Json model = {{"architectures", {family.name}}, {"model_type", family.model_type}};
  model["vocab_size"] = dice.one_of<int64_t>({101, 256, 301, 301, 512, 1013, 2048});
  model["tie_word_embeddings"] = dice.chance(0.5);
  model["eos_token_id"] = dice.chance(0.5) ? Json(2) : Json(nullptr);
  model["dtype"] = dice.one_of<std::string>({"float32", "bfloat16", "bfloat16", "float16"});
  if (family.keys == arch::Keys::kT5) {
    draw_encoder_decoder(model, dice);
    return model;
  }
  if (family.keys == arch::Keys::kGpt2) {
    draw_gpt2(model, dice);
    return model;
  }
  model["num_hidden_layers"] = dice.between(1, 4);
  draw_heads(model, dice);
  if (dice.chance(0.05)) draw_usual_size(model, dice);
  if (family.head_dim != 0 && !model.contains("head_dim") && dice.chance(0.8)) model["head_dim"] = 16;
  draw_biases(model, family, dice);
  if (family.keys == arch::Keys::kLfm2) draw_lfm2(model, dice);
  if (family.keys == arch::Keys::kGraniteHybrid) draw_granite_hybrid(model);
  if (family.keys == arch::Keys::kQwen35) draw_qwen35(model, dice);
  if (family.latent) draw_latent(model, dice);
  const bool gemma4 = family.keys == arch::Keys::kGemma4;
  gemma4 ? draw_gemma4(model, dice) : draw_window(model, family, dice);
  draw_experts(model, family, dice);
  if (!gemma4) draw_positions(model, family, dice);
  draw_scales(model, family, dice);
  model["max_position_embeddings"] = dice.one_of<int64_t>({64, 512, 512, 4096});
  model["bos_token_id"] = model["pad_token_id"] = nullptr;
  if (dice.chance(0.06)) draw_fp8_blocks(model, dice);
  return model;
}

Json in_whole(const Json& model) {
  struct Whole {
    const char *family, *type, *name, *text_type;
    bool flat;
  };
  constexpr Whole kWholes[] = {
      {"Gemma3ForCausalLM", "gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", false},
      {"Gemma4ForCausalLM", "gemma4", "Gemma4ForConditionalGeneration", "gemma4_text", false},
      {"MistralForCausalLM", "mistral3", "Mistral3ForConditionalGeneration", "mistral", false},
      {"Ministral3ForCausalLM", "mistral3", "Mistral3ForConditionalGeneration", "ministral3", false},
      {"Mistral4ForCausalLM", "mistral3", "Mistral3ForConditionalGeneration", "mistral4", false},
      {"Qwen2ForCausalLM", "qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "", true},
      {"Qwen3ForCausalLM", "qwen3_vl", "Qwen3VLForConditionalGeneration", "qwen3_vl_text", false},
      {"Qwen3_5ForCausalLM", "qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text", false},
      {"Qwen3_5MoeForCausalLM", "qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text", false}};
  const auto* whole = std::find_if(std::begin(kWholes), std::end(kWholes),
                                   [&](const Whole& row) { return model["architectures"][0] == row.family; });
  if (whole == std::end(kWholes)) return nullptr;
  Json config = {{"tie_word_embeddings", model["tie_word_embeddings"]}, {"dtype", model["dtype"]}};
  if (model.contains("quantization_config")) config["quantization_config"] = model["quantization_config"];
  Json text = model;
  for (const char* key : {"architectures", "tie_word_embeddings", "dtype", "quantization_config"}) text.erase(key);
  text["model_type"] = whole->text_type;
  if (whole->flat) {
    config.update(text);
  } else {
    config["text_config"] = text;
  }
  config["architectures"] = {whole->name};
  config["model_type"] = whole->type;
  for (const char* key : {"image_token_id", "video_token_id"}) config[key] = model["vocab_size"].get<int64_t>() + 100;
  return config;
}

std::vector<std::string> projections_of(const Json& model) {
  std::vector<std::string> names;
  for (const arch::ParameterSpec& spec : arch::parameter_specs(arch::parse_architecture(model, "config.json"))) {
    if (spec.role != arch::Role::kProjection || spec.layer != 0) continue;
    const std::string module = spec.module();
    names.push_back(module.substr(module.rfind('.') + 1));
  }
  return names;
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
