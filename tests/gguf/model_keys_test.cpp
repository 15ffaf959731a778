// Models in llama.cpp's words: names, keys, the order of rows, and what is refused.
#include "gguf/model_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "arch/rotary_frequencies.h"
#include "tests/gguf/golden_model.h"

namespace fathom::gguf {
namespace {

using arch::Architecture;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::map<std::string, std::string> names_of(const Architecture& model) {
  std::map<std::string, std::string> names;
  for (const arch::ParameterSpec& spec : arch::parameter_specs(model)) names[spec.name] = tensor_name(spec, model);
  return names;
}

TEST(ModelKeys, NameTensorsAsLlamaCppDoes) {
  const auto llama = names_of(golden("llama_biased"));
  EXPECT_EQ(llama.at("model.embed_tokens.weight"), "token_embd.weight");
  EXPECT_EQ(llama.at("model.norm.weight"), "output_norm.weight");
  EXPECT_EQ(llama.at("model.layers.0.input_layernorm.weight"), "blk.0.attn_norm.weight");
  EXPECT_EQ(llama.at("model.layers.1.self_attn.q_proj.bias"), "blk.1.attn_q.bias");
  EXPECT_EQ(llama.at("model.layers.1.self_attn.o_proj.weight"), "blk.1.attn_output.weight");
  EXPECT_EQ(llama.at("model.layers.0.post_attention_layernorm.weight"), "blk.0.ffn_norm.weight");
  EXPECT_EQ(llama.at("model.layers.0.mlp.gate_proj.weight"), "blk.0.ffn_gate.weight");
  EXPECT_EQ(names_of(golden("mistral")).at("lm_head.weight"), "output.weight");
  EXPECT_EQ(names_of(golden("qwen3")).at("model.layers.0.self_attn.k_norm.weight"), "blk.0.attn_k_norm.weight");
  const auto olmo2 = names_of(golden("olmo2"));
  EXPECT_EQ(olmo2.at("model.layers.0.post_attention_layernorm.weight"), "blk.0.post_attention_norm.weight");
  EXPECT_EQ(olmo2.at("model.layers.0.post_feedforward_layernorm.weight"), "blk.0.post_ffw_norm.weight");
}

TEST(ModelKeys, NameTheStacksOfAnEncoderAndDecoder) {
  const auto t5 = names_of(golden("t5_flan"));
  EXPECT_EQ(t5.at("shared.weight"), "token_embd.weight");
  EXPECT_EQ(t5.at("encoder.block.1.layer.0.SelfAttention.q.weight"), "enc.blk.1.attn_q.weight");
  EXPECT_EQ(t5.at("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
            "enc.blk.0.attn_rel_b.weight");
  EXPECT_EQ(t5.at("encoder.block.0.layer.1.DenseReluDense.wi_0.weight"), "enc.blk.0.ffn_gate.weight");
  EXPECT_EQ(t5.at("encoder.block.0.layer.1.layer_norm.weight"), "enc.blk.0.ffn_norm.weight");
  EXPECT_EQ(t5.at("encoder.final_layer_norm.weight"), "enc.output_norm.weight");
  EXPECT_EQ(t5.at("decoder.block.2.layer.0.SelfAttention.o.weight"), "dec.blk.2.attn_o.weight");
  EXPECT_EQ(t5.at("decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
            "dec.blk.0.attn_rel_b.weight");
  EXPECT_EQ(t5.at("decoder.block.2.layer.1.EncDecAttention.v.weight"), "dec.blk.2.cross_attn_v.weight");
  EXPECT_EQ(t5.at("decoder.block.2.layer.1.layer_norm.weight"), "dec.blk.2.cross_attn_norm.weight");
  EXPECT_EQ(t5.at("decoder.block.0.layer.2.DenseReluDense.wo.weight"), "dec.blk.0.ffn_down.weight");
  EXPECT_EQ(t5.at("decoder.final_layer_norm.weight"), "dec.output_norm.weight");
  EXPECT_EQ(t5.at("lm_head.weight"), "output.weight");
  EXPECT_EQ(names_of(golden("t5_first")).at("encoder.block.0.layer.1.DenseReluDense.wi.weight"),
            "enc.blk.0.ffn_up.weight");
}

TEST(ModelKeys, LetHalvesOfHeadsTakeTurns) {
  std::vector<int64_t> order;
  for (int64_t row = 0; row < 12; ++row) order.push_back(row_in_pairs(row, 12, 2));
  EXPECT_THAT(order, ElementsAre(0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11));
}

TEST(ModelKeys, RotateNeighboursInLlamasQueriesAndKeysAlone) {
  for (const auto& [name, rotates] :
       {std::pair{"grouped", true}, {"mistral", true}, {"qwen2", false}, {"olmo2", false}}) {
    const Architecture model = golden(name);
    const LlamaCppArchitecture& target = llama_cpp_architecture(model, name);
    for (const arch::ParameterSpec& spec : arch::parameter_specs(model)) {
      const auto& attention = model.layers.front().attention();
      const bool query = spec.name.find("q_proj") != std::string::npos,
                 key = spec.name.find("k_proj") != std::string::npos;
      const int64_t heads = query ? attention.heads : key ? attention.key_value_heads : 0;
      EXPECT_EQ(heads_in_pairs(spec, model, target), rotates ? heads : 0) << spec.name;
    }
  }
}

TEST(ModelKeys, DescribeAModel) {
  const Architecture model = golden("mistral");
  const auto keys = model_keys(model, llama_cpp_architecture(model, "folder"), 77);
  const std::map<std::string, weights::GgufValue> by_name(keys.begin(), keys.end());
  const auto& layer = model.layers.front();
  const auto count = [&](const char* key) { return std::get<uint32_t>(by_name.at(std::string("llama.") + key)); };
  EXPECT_EQ(count("block_count"), model.num_hidden_layers());
  EXPECT_EQ(count("context_length"), model.max_position_embeddings);
  EXPECT_EQ(count("embedding_length"), model.hidden_size);
  EXPECT_EQ(count("feed_forward_length"), layer.feed_forward.width);
  EXPECT_EQ(count("attention.head_count"), layer.attention().heads);
  EXPECT_EQ(count("attention.head_count_kv"), layer.attention().key_value_heads);
  EXPECT_EQ(count("attention.key_length"), model.head_dim());
  EXPECT_EQ(count("rope.dimension_count"), model.head_dim());
  EXPECT_EQ(count("vocab_size"), 77);
  EXPECT_EQ(std::get<float>(by_name.at("llama.rope.freq_base")),
            static_cast<float>(model.layers.front().attention().rotary->theta));
  EXPECT_EQ(std::get<float>(by_name.at("llama.attention.layer_norm_rms_epsilon")), static_cast<float>(model.norm_eps));
}

TEST(ModelKeys, DescribeAnEncoderAndDecoder) {
  const Architecture model = golden("t5_flan", {{"num_layers", 4}});
  const auto keys = model_keys(model, llama_cpp_architecture(model, "folder"), 61);
  const std::map<std::string, weights::GgufValue> by_name(keys.begin(), keys.end());
  const auto count = [&](const char* key) { return std::get<uint32_t>(by_name.at(std::string("t5.") + key)); };
  EXPECT_EQ(count("block_count"), 4);
  EXPECT_EQ(count("decoder_block_count"), 3);
  EXPECT_EQ(count("context_length"), 512);
  EXPECT_EQ(count("attention.head_count"), 3);
  EXPECT_EQ(count("attention.key_length"), 6);
  EXPECT_EQ(count("attention.relative_buckets_count"), 32);
  EXPECT_EQ(count("decoder_start_token_id"), 0);
  EXPECT_FALSE(by_name.contains("t5.rope.freq_base"));
}

TEST(ModelKeys, TellOfWindows) {
  const Architecture model = golden("qwen2_windowed");
  ::testing::internal::CaptureStderr();
  const auto keys = model_keys(model, llama_cpp_architecture(model, "qwen2_windowed"), 77);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("has no sliding window: for texts longer than " + std::to_string(model.sliding_window())));
  const std::map<std::string, weights::GgufValue> by_name(keys.begin(), keys.end());
  EXPECT_EQ(std::get<uint32_t>(by_name.at("qwen2.attention.sliding_window")), model.sliding_window());
  std::vector<bool> windowed;
  for (const auto& layer : model.layers) windowed.push_back(layer.attention().window > 0);
  EXPECT_EQ(std::get<std::vector<bool>>(by_name.at("qwen2.attention.sliding_window_pattern")), windowed);
}

TEST(ModelKeys, DivideFrequenciesAsTheyAreStretched) {
  const Architecture model = golden("llama_stretched");
  arch::Rotary rotary = *model.layers.front().attention().rotary;
  const auto stretched = arch::rotary_frequencies(rotary);
  rotary.scaling = std::monostate();
  const auto plain = arch::rotary_frequencies(rotary);
  const auto found = rope_factors(model);
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found.front().name, "rope_freqs.weight");
  const auto& factors = found.front().factors;
  ASSERT_EQ(factors.size(), plain.size());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(plain[i] / factors[i], stretched[i], 1e-6 * stretched[i]) << i;
  EXPECT_NE(factors.front(), factors.back());
  EXPECT_TRUE(rope_factors(golden("grouped")).empty());
}

TEST(ModelKeys, RefuseByNameWhatLlamaCppDoesNotHave) {
  EXPECT_EQ(refusal(golden("llama_stretched_biased")), "");
  EXPECT_EQ(refusal(golden("wide_heads")), "");
  EXPECT_THAT(refusal(golden("ministral")), AllOf(HasSubstr("MinistralForCausalLM cannot be written as GGUF"),
                                                  HasSubstr("LlamaForCausalLM, MistralForCausalLM")));
  EXPECT_THAT(refusal(golden("cwm")), HasSubstr("CwmForCausalLM cannot be written as GGUF"));
  EXPECT_EQ(refusal(golden("t5_first")), "");
  EXPECT_THAT(refusal(golden("t5_flan")), HasSubstr("the decoder has more layers than the encoder"));
  EXPECT_THAT(refusal(golden("t5_far")), HasSubstr("relative_attention_max_distance is 23"));
  EXPECT_THAT(refusal(golden("t5_first", {{"feed_forward_proj", "gelu_new"}})),
              HasSubstr("feed_forward_proj is neither relu nor gated-gelu"));
  EXPECT_THAT(refusal(golden("qwen3_biased")), HasSubstr("biases to outputs, which llama.cpp's 'qwen3' does not have"));
  EXPECT_THAT(refusal(golden("olmo2_biased")), HasSubstr("biases to outputs"));
  EXPECT_THAT(refusal(golden("qwen2_stretched")), HasSubstr("stretched as Llama 3's"));
  EXPECT_THAT(refusal(golden("qwen2", {{"head_dim", 24}})), HasSubstr("the heads together are as wide as"));
}

}  // namespace
}  // namespace fathom::gguf
