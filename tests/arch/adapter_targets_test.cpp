// Which experts and routers get an adapter, of which shape and name: as PEFT 0.21 has it on transformers 5.
#include "arch/adapter_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/parameter_table.h"
#include "base/error.h"
#include "config/target_pattern.h"

namespace fathom::arch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Names = std::vector<std::string>;

// The first layer has no experts.
Architecture small_mixture(ExpertFiles files = ExpertFiles::kProjections) {
  Architecture architecture;
  architecture.family = "Qwen3MoeForCausalLM";
  architecture.hidden_size = 16;
  architecture.vocab_size = 50;
  architecture.layers.assign(
      2, {.mixer = arch::Attention{.heads = 2, .key_value_heads = 1, .head_dim = 8}, .feed_forward = {.width = 20}});
  architecture.layers[1].feed_forward.width = 12;
  architecture.layers[1].feed_forward.experts = Experts{.count = 3, .per_token = 2, .files = files};
  return architecture;
}

// "mlp.gate.lora_A.weight 2x16", of one layer.
Names adapters(const LoraOptions& lora, int layer, ExpertFiles files = ExpertFiles::kProjections) {
  Names found;
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  for (const ParameterRow& row : parameter_table(small_mixture(files), {.lora = lora}).rows) {
    if (row.of_base() || !row.spec.name.starts_with(prefix)) continue;
    found.push_back(row.spec.name.substr(prefix.size()) + " " + std::to_string(row.spec.shape[0]) + "x" +
                    std::to_string(row.spec.shape[1]));
  }
  return found;
}

std::string refusal(const LoraOptions& lora) {
  try {
    parameter_table(small_mixture(), {.lora = lora});
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

const Names kBoth = {"mlp.experts.base_layer.lora_A.weight 6x16", "mlp.experts.base_layer.lora_B.weight 24x6",
                     "mlp.experts.lora_A.weight 6x12", "mlp.experts.lora_B.weight 16x6"};

TEST(AdapterTargets, OfParametersAreStackedByExperts) {
  EXPECT_EQ(adapters({.r = 2, .target_parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"}}, 1), kBoth);
  EXPECT_THAT(adapters({.r = 2, .target_parameters = {"gate_up_proj"}}, 1),
              ElementsAre("mlp.experts.lora_A.weight 6x16", "mlp.experts.lora_B.weight 24x6"));
  EXPECT_THAT(adapters({.r = 2, .target_parameters = {"mlp.gate.weight"}}, 1),
              ElementsAre("mlp.gate.lora_A.weight 2x16", "mlp.gate.lora_B.weight 3x2"));
  EXPECT_TRUE(adapters({.r = 2, .target_parameters = {"down_proj"}}, 0).empty()) << "a layer without experts";
}

TEST(AdapterTargets, OfModulesThatAreParametersNowMeanThese) {
  const Names fused = {"mlp.experts.base_layer.lora_A.weight 12x16", "mlp.experts.base_layer.lora_B.weight 24x12",
                       "mlp.experts.lora_A.weight 6x12", "mlp.experts.lora_B.weight 16x6"};
  EXPECT_EQ(adapters({.r = 2, .target_modules = {"gate_proj", "up_proj", "down_proj"}}, 1), fused);
  EXPECT_EQ(adapters({.r = 2, .target_modules = {"w1", "w2", "w3"}}, 1, ExpertFiles::kMixtral), fused);
  EXPECT_TRUE(adapters({.r = 2, .target_modules = {"gate_proj", "up_proj", "down_proj"}}, 0).empty());
  const Names all = adapters({.r = 2, .target_modules = {"all-linear"}}, 1);
  EXPECT_EQ(all.size(), 8U + 2 + 4);
  EXPECT_EQ(adapters({.r = 2, .target_modules = {"all-linear"}}, 0).size(), 8U) << "attention alone";
}

TEST(AdapterTargets, OfTwoProjectionsAreScaledLikeEach) {
  LoraOptions lora{.r = 4, .alpha = 8};
  EXPECT_EQ(lora.scaling(4), 2);
  EXPECT_EQ(lora.scaling(8), 2);
  lora.rank_stabilised = true;
  EXPECT_EQ(lora.scaling(4), 4);
  EXPECT_NEAR(lora.scaling(8), 16 / std::sqrt(8.0), 1e-12);
}

TEST(AdapterTargets, ThatCannotBeAreRefused) {
  EXPECT_THAT(refusal({.target_modules = {"q_proj", "up_proj"}}), HasSubstr("gate and up projections of experts"));
  EXPECT_THAT(refusal({.target_parameters = {"mlp.experts.w2"}}), HasSubstr("'mlp.experts.w2' matches no experts"));
  EXPECT_THAT(refusal({.dropout = 0.1, .target_parameters = {"down_proj"}}), HasSubstr("lora_dropout"));
  EXPECT_THAT(refusal({.modules_to_save = {"experts"}}), HasSubstr("'experts' matches no module"));
}

// As PEFT's re.fullmatch and endswith: a pattern is held against whole names, entries of a list against their ends.
TEST(AdapterTargets, APatternMatchesWholeNames) {
  const std::vector<std::string> modules = {"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj",
                                            "model.layers.1.self_attn.q_proj", "model.layers.11.mlp.q_proj"};
  const auto adapted = [&](const std::string& text) {
    const std::set<std::string> found = adapted_modules(modules, config::targets_of_text(text));
    return Names(found.begin(), found.end());
  };
  const auto refused = [&](const std::string& text) -> std::string {
    try {
      adapted(text);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(adapted(R"(.*layers\.0\..*q_proj)"), ElementsAre(modules[0]));
  EXPECT_THAT(adapted(R"(.*\.(q|v)_proj)").size(), 4U);
  EXPECT_THAT(adapted(R"(model\.layers\.\d\..*q_proj)"), ElementsAre(modules[0], modules[2])) << "no part of a name";
  EXPECT_THAT(adapted(R"((?i).*SELF_ATTN\.v_proj)"), ElementsAre(modules[1]));
  EXPECT_THAT(adapted("All-Linear").size(), 4U);
  for (const char* part : {"q_proj", ".*q_pro", "layers.*", R"(.*\.q_proj\.weight)"}) {
    EXPECT_THAT(refused(part), HasSubstr("matches the whole name of no linear layer that can be adapted")) << part;
  }
  EXPECT_THAT(refused("(q_proj"), HasSubstr("target_modules: not a regular expression"));
  EXPECT_THAT(refused("(.|..|...)*(.|..)*(.|..)*[^a-z_]"),
              HasSubstr("takes too long on model.layers.0.self_attn.q_proj"))
      << "the pattern may be a stranger's";
}

TEST(AdapterTargets, APatternGivesAnAdapterToNothingElse) {
  Architecture architecture = small_mixture();
  for (LayerSpec& layer : architecture.layers) layer.feed_forward.experts.reset();
  const auto rows = [&](const std::string& text) {
    Names found;
    const LoraOptions lora{.r = 2, .target_modules = config::targets_of_text(text)};
    for (const ParameterRow& row : parameter_table(architecture, {.lora = lora}).rows) {
      if (!row.of_base() && row.spec.name.ends_with("lora_A.weight")) found.push_back(row.spec.name);
    }
    return found;
  };
  EXPECT_THAT(rows(R"(.*\.1\..*o_proj)"), ElementsAre("model.layers.1.self_attn.o_proj.lora_A.weight"));
  for (const char* too_wide : {".*", ".*(q_proj|lm_head)", ".*(q_proj|embed_tokens)"}) {
    for (const bool tied : {false, true}) {
      architecture.tie_word_embeddings = tied;
      EXPECT_THROW(rows(too_wide), UsageError) << too_wide;
    }
  }
  EXPECT_THAT(refusal({.r = 2, .target_modules = config::targets_of_text(".*q_proj")}),
              HasSubstr("is a regular expression, and experts are no linear layers any more"));
}

}  // namespace
}  // namespace fathom::arch
