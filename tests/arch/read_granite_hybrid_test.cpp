// The config.json of Granite 4, and what of it is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/architecture.h"
#include "base/error.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Architecture read_granite(const Json& more) {
  Json config = {{"architectures", {"GraniteMoeHybridForCausalLM"}},
                 {"model_type", "granitemoehybrid"},
                 {"vocab_size", 100},
                 {"hidden_size", 32},
                 {"intermediate_size", 77},
                 {"shared_intermediate_size", 48},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 8},
                 {"num_local_experts", 0},
                 {"position_embedding_type", "rope"},
                 {"layer_types", {"attention", "full_attention"}},
                 {"attention_multiplier", 0.25},
                 {"residual_multiplier", 0.2}};
  config.update(more);
  return parse_architecture(config, "config.json");
}

TEST(ReadGraniteHybrid, HasGranitesLayersUnderNamesOfItsOwn) {
  const Architecture granite = read_granite(Json::object());
  std::vector<std::string> of_first_layer;
  for (const ParameterSpec& spec : parameter_specs(granite)) {
    if (spec.layer == 0) of_first_layer.push_back(spec.module().substr(15) + " " + std::to_string(spec.shape.front()));
  }
  EXPECT_THAT(of_first_layer, ElementsAre("input_layernorm 32", "self_attn.q_proj 32", "self_attn.k_proj 32",
                                          "self_attn.v_proj 32", "self_attn.o_proj 32", "post_attention_layernorm 32",
                                          "shared_mlp.input_linear 96", "shared_mlp.output_linear 32"));
  EXPECT_EQ(granite.layers.back().added_scale, 0.2);
  EXPECT_EQ(granite.attention().rotary->query_scale, 0.5) << "0.25 instead of 1 / sqrt(4)";
  EXPECT_EQ(granite.experts(), nullptr);
  Json older = {{"layers_block_type", {"attention", "attention"}}, {"layer_types", nullptr}};
  EXPECT_EQ(read_granite(older), granite);
}

TEST(ReadGraniteHybrid, RefusesWhatItCannotExpress) {
  const auto refuses = [](const Json& more, const char* message) {
    EXPECT_THAT([&] { read_granite(more); }, ThrowsMessage<Error>(HasSubstr(message))) << more;
  };
  refuses({{"layer_types", {"mamba", "attention"}}}, "config.json: layer_types: \"mamba\" is not supported");
  refuses({{"layer_types", {"full_attention", "linear_attention"}}}, "layer_types: \"linear_attention\" is not");
  refuses({{"layer_types", nullptr}}, "config.json: layer_types: expected a list");
  refuses({{"layers_block_type", {"mamba", "mamba"}}}, "layers_block_type: [\"mamba\",\"mamba\"] is not what");
  refuses({{"num_local_experts", 62}}, "config.json: num_local_experts: only 0 is supported");
  refuses({{"num_local_experts", nullptr}}, "num_local_experts: only 0 is supported");
  refuses({{"position_embedding_type", "nope"}}, "config.json: position_embedding_type: only \"rope\"");
  refuses({{"position_embedding_type", nullptr}}, "position_embedding_type: only \"rope\"");
}

}  // namespace
}  // namespace fathom::arch
