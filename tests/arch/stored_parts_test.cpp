// The names under which folders store experts, and the rows that these are.
#include "arch/stored_parts.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "arch/text_part.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

Architecture with_experts(ExpertFiles files) {
  Architecture architecture;
  architecture.hidden_size = 6;
  architecture.vocab_size = 10;
  LayerSpec layer{.mixer = arch::Attention{.heads = 1, .key_value_heads = 1, .head_dim = 2},
                  .feed_forward = {.width = 5}};
  layer.feed_forward.experts = Experts{.count = 3, .per_token = 1, .files = files};
  architecture.layers.assign(2, layer);
  return architecture;
}

const ParameterSpec& spec_of(const std::vector<ParameterSpec>& specs, const std::string& name) {
  return *std::find_if(specs.begin(), specs.end(), [&](const ParameterSpec& spec) { return spec.name == name; });
}

TEST(StoredParts, AreTheMatricesOfEachExpert) {
  const Architecture qwen = with_experts(ExpertFiles::kProjections);
  const std::vector<ParameterSpec> specs = parameter_specs(qwen);
  const auto parts = stored_parts(qwen, spec_of(specs, "model.layers.1.mlp.experts.gate_up_proj"));
  ASSERT_EQ(parts.size(), 6U);
  EXPECT_EQ(parts[3].name, "model.layers.1.mlp.experts.1.up_proj.weight");
  EXPECT_EQ(parts[3].shape, (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(parts[3].first_row, 15);
  EXPECT_EQ(parts[3].rows, 5);
  const auto down = stored_parts(qwen, spec_of(specs, "model.layers.0.mlp.experts.down_proj"));
  ASSERT_EQ(down.size(), 3U);
  EXPECT_EQ(down[2].name, "model.layers.0.mlp.experts.2.down_proj.weight");
  EXPECT_EQ(down[2].first_row, 12);
  const auto head = stored_parts(qwen, spec_of(specs, "lm_head.weight"));
  ASSERT_EQ(head.size(), 1U);
  EXPECT_EQ(head[0].name, "lm_head.weight");
}

TEST(StoredParts, HaveNamesOfTheirOwnInMixtral) {
  const Architecture mixtral = with_experts(ExpertFiles::kMixtral);
  const std::vector<ParameterSpec> specs = parameter_specs(mixtral);
  const auto router = stored_parts(mixtral, spec_of(specs, "model.layers.1.mlp.gate.weight"));
  EXPECT_EQ(router.front().name, "model.layers.1.block_sparse_moe.gate.weight");
  const auto gate_up = stored_parts(mixtral, spec_of(specs, "model.layers.1.mlp.experts.gate_up_proj"));
  EXPECT_EQ(gate_up[0].name, "model.layers.1.block_sparse_moe.experts.0.w1.weight");
  EXPECT_EQ(gate_up[1].name, "model.layers.1.block_sparse_moe.experts.0.w3.weight");
}

TEST(StoredParts, AreAllExpertsInGranite) {
  Architecture granite = with_experts(ExpertFiles::kStacked);
  for (LayerSpec& layer : granite.layers) layer.naming = Naming::kGraniteMoe;
  const std::vector<ParameterSpec> specs = parameter_specs(granite);
  const std::string prefix = "model.layers.1.block_sparse_moe.";
  const auto gate_up = stored_parts(granite, spec_of(specs, prefix + "experts.gate_up_proj"));
  ASSERT_EQ(gate_up.size(), 1U);
  EXPECT_EQ(gate_up[0].name, prefix + "input_linear.weight");
  EXPECT_EQ(gate_up[0].shape, (std::vector<int64_t>{3, 10, 6}));
  EXPECT_EQ(stored_parts(granite, spec_of(specs, prefix + "router.weight"))[0].name, prefix + "router.layer.weight");
}

TEST(StoredParts, AreAllExpertsTheOtherWayRoundInGptOss) {
  Architecture gpt_oss = with_experts(ExpertFiles::kTurned);
  for (LayerSpec& layer : gpt_oss.layers) {
    layer.naming = Naming::kGptOss;
    layer.feed_forward.experts->biased = true;
  }
  const std::vector<ParameterSpec> specs = parameter_specs(gpt_oss);
  const std::string prefix = "model.layers.1.mlp.";
  const ParameterSpec& gate_up = spec_of(specs, prefix + "experts.gate_up_proj");
  ASSERT_EQ(stored_spellings(gpt_oss, gate_up).size(), 1U);
  const StoredPart part = stored_parts(gpt_oss, gate_up).front();
  EXPECT_EQ(part.name, gate_up.name);
  EXPECT_EQ(gate_up.shape, (std::vector<int64_t>{30, 6}));
  EXPECT_EQ(part.shape, (std::vector<int64_t>{3, 6, 10}));
  EXPECT_TRUE(part.transposed);
  const StoredPart biases = stored_parts(gpt_oss, spec_of(specs, prefix + "experts.down_proj_bias")).front();
  EXPECT_EQ(biases.shape, (std::vector<int64_t>{3, 6}));
  EXPECT_FALSE(biases.transposed);
  EXPECT_EQ(stored_parts(gpt_oss, spec_of(specs, prefix + "router.weight")).front().name, prefix + "router.weight");
  EXPECT_EQ(stored_parts(gpt_oss, spec_of(specs, prefix + "router.bias")).front().shape, (std::vector<int64_t>{3}));
}

TEST(StoredParts, MayLieInOneTensorToo) {
  const Architecture qwen = with_experts(ExpertFiles::kProjections);
  const std::vector<ParameterSpec> specs = parameter_specs(qwen);
  const auto spellings = stored_spellings(qwen, spec_of(specs, "model.layers.0.mlp.experts.gate_up_proj"));
  ASSERT_EQ(spellings.size(), 2U);
  ASSERT_EQ(spellings[1].size(), 1U);
  EXPECT_EQ(spellings[1][0].name, "model.layers.0.mlp.experts.gate_up_proj");
  EXPECT_EQ(spellings[1][0].shape, (std::vector<int64_t>{3, 10, 6}));
}

// Of every family, so that whoever asks by names alone misses none.
TEST(StoredParts, AreKnownByName) {
  for (const auto& folder : std::filesystem::directory_iterator(FATHOM_SOURCE_DIR "/tests/model/golden")) {
    const auto config = folder.path() / "config.json";
    const Architecture architecture = parse_architecture(read_json(config), config.string());
    for (const ParameterSpec& spec : parameter_specs(architecture)) {
      const std::vector<StoredPart> parts = stored_parts(architecture, spec);
      const bool as_it_is = parts.size() == 1 && parts[0].shape == spec.shape &&
                            parts[0].name == stored_name(architecture.text_part, spec.name);
      EXPECT_TRUE(as_it_is || may_be_stored_otherwise(spec.name)) << folder.path() << ": " << spec.name;
    }
  }
}

}  // namespace
}  // namespace fathom::arch
