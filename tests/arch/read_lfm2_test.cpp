// The config.json of LFM2, in both of its spellings, and what a layer keeps while it generates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "arch/architecture.h"
#include "base/error.h"
#include "base/json_value.h"
#include "tests/arch/attending.h"

namespace fathom::arch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Architecture read_lfm2(const Json& more) {
  Json config = {{"architectures", {"Lfm2ForCausalLM"}},
                 {"model_type", "lfm2"},
                 {"vocab_size", 100},
                 {"hidden_size", 32},
                 {"intermediate_size", 300},
                 {"num_hidden_layers", 3},
                 {"num_attention_heads", 8},
                 {"num_key_value_heads", 2}};
  config.update(more);
  return parse_architecture(config, "config.json");
}

TEST(ReadLfm2, SaysWhichLayersAttend) {
  EXPECT_THAT(attending(read_lfm2(Json::object())), ElementsAre(true, true, true));
  EXPECT_THAT(attending(read_lfm2({{"full_attn_idxs", {1}}})), ElementsAre(false, true, false));
  EXPECT_THAT(attending(read_lfm2({{"layer_types", {"conv", "conv", "full_attention"}}, {"full_attn_idxs", {0}}})),
              ElementsAre(false, false, true));
}

TEST(ReadLfm2, TakesTransformersDefaults) {
  const Architecture lfm2 = read_lfm2({{"full_attn_idxs", {1}}});
  EXPECT_EQ(lfm2.norm_eps, 1e-5);
  EXPECT_TRUE(lfm2.tie_word_embeddings);
  EXPECT_EQ(lfm2.attention().rotary, (Rotary{.width = 4, .theta = 1e6}));
  EXPECT_EQ(lfm2.attention().query_key_norm, QueryKeyNorm::kEachHead);
  EXPECT_EQ(std::get<ShortConvolution>(lfm2.layers[0].mixer).taps, 3);
  EXPECT_EQ(lfm2.head_dim(), 4);
  EXPECT_EQ(lfm2.rotaries().size(), 1u);
  EXPECT_EQ(lfm2.sliding_window(), 0);
  EXPECT_EQ(lfm2.names().norm, std::string("model.embedding_norm"));
}

TEST(ReadLfm2, AdjustsTheWidthOfFeedForwardParts) {
  const auto width = [](const Json& more) { return read_lfm2(more).layers.front().feed_forward.width; };
  EXPECT_EQ(width(Json::object()), 256);  // 200, up to a multiple of 256
  EXPECT_EQ(width({{"block_ff_dim", 385}}), 256);
  EXPECT_EQ(width({{"block_ff_dim", 386}}), 512);
  EXPECT_EQ(width({{"block_multiple_of", 7}, {"block_ffn_dim_multiplier", 1.5}}), 301);
  EXPECT_EQ(width({{"block_auto_adjust_ff_dim", false}}), 300);
}

TEST(ReadLfm2, PrefersItsOldWordForTiedEmbeddings) {
  EXPECT_FALSE(read_lfm2({{"tie_embedding", false}, {"tie_word_embeddings", true}}).tie_word_embeddings);
  EXPECT_FALSE(read_lfm2({{"tie_word_embeddings", false}}).tie_word_embeddings);
}

TEST(ReadLfm2, HasTheNamesAndShapesOfTransformers) {
  const std::vector<ParameterSpec> specs = parameter_specs(read_lfm2({{"full_attn_idxs", {1}}}));
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const ParameterSpec& spec : specs) shapes[spec.name] = spec.shape;
  EXPECT_EQ(shapes.size(), specs.size());
  EXPECT_EQ(specs.size(), 2u + 2 * (2 + 3 + 3) + (2 + 6 + 3));
  EXPECT_THAT(shapes.at("model.layers.0.conv.in_proj.weight"), ElementsAre(96, 32));
  EXPECT_THAT(shapes.at("model.layers.0.conv.conv.weight"), ElementsAre(32, 3));
  EXPECT_THAT(shapes.at("model.layers.2.conv.out_proj.weight"), ElementsAre(32, 32));
  EXPECT_THAT(shapes.at("model.layers.1.self_attn.out_proj.weight"), ElementsAre(32, 32));
  EXPECT_THAT(shapes.at("model.layers.1.self_attn.q_layernorm.weight"), ElementsAre(4));
  EXPECT_THAT(shapes.at("model.layers.1.feed_forward.w2.weight"), ElementsAre(32, 256));
}

TEST(ReadLfm2, RefusesByKey) {
  const auto refused = [](const char* key) { return ThrowsMessage<Error>(HasSubstr(key)); };
  EXPECT_THAT([] { read_lfm2({{"conv_bias", true}}); }, refused("conv_bias"));
  EXPECT_THAT([] { read_lfm2({{"conv_L_cache", 0}}); }, refused("conv_L_cache"));
  EXPECT_THAT([] { read_lfm2({{"layer_types", {"conv", "mamba", "full_attention"}}}); }, refused("layer_types"));
  EXPECT_THAT([] { read_lfm2({{"layer_types", {"full_attention"}}}); }, refused("layer_types"));
  EXPECT_THAT([] { read_lfm2({{"full_attn_idxs", Json::array()}}); }, refused("full_attn_idxs"));
  EXPECT_THAT([] { read_lfm2({{"full_attn_idxs", 1}}); }, refused("full_attn_idxs"));
  EXPECT_THAT([] { read_lfm2({{"norm_eps", -1}}); }, refused("norm_eps"));
  EXPECT_THAT([] { read_lfm2({{"num_experts", 4}}); }, refused("num_experts"));
  EXPECT_THAT(
      [] {
        read_lfm2({{"architectures", {"Lfm2MoeForCausalLM"}}, {"model_type", "lfm2_moe"}});
      },
      refused("Lfm2MoeForCausalLM"));
}

TEST(ReadLfm2, KeepsTheLastTokensOfConvolutionsWhileItGenerates) {
  const Architecture lfm2 = read_lfm2({{"full_attn_idxs", {1}}, {"conv_L_cache", 4}});
  EXPECT_THAT(kept_while_generating(lfm2, lfm2.layers[0], 5, 70), ElementsAre(KeptTensor{{5, 3, 32}}));
  EXPECT_THAT(kept_while_generating(lfm2, lfm2.layers[1], 5, 70),
              ElementsAre(KeptTensor{{5, 2, 70, 4}}, KeptTensor{{5, 2, 70, 4}}));
}

}  // namespace
}  // namespace fathom::arch
