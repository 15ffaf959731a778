// What folders and adapters call the tensors of a text part.
#include "arch/text_part.h"

#include <gtest/gtest.h>

#include <set>

#include "weights/other_parts.h"

namespace fathom::arch {
namespace {

constexpr const char* kPrefixes[] = {"model.", "model.language_model.", "language_model.model.",
                                     "model.language_model.model.", "language_model."};
constexpr const char* kWeight = "layers.3.mlp.up_proj.weight";

TEST(TextPartNames, AreFoundInEverySpelling) {
  for (const std::string model : kPrefixes) {
    for (const std::string head : {"lm_head.", "language_model.lm_head."}) {
      const std::set<std::string> folder = {model + "embed_tokens.weight", model + kWeight, head + "weight"};
      const auto has = [&](const std::string& name) { return folder.contains(name); };
      TextPart part;
      find_names(part, has);
      EXPECT_EQ(part.model, model);
      EXPECT_EQ(part.head, head);
      const std::string name = std::string("model.") + kWeight;
      EXPECT_EQ(stored_name(part, name), model + kWeight);
      EXPECT_EQ(stored_name(part, "lm_head.weight"), head + "weight");
      EXPECT_EQ(name_in_decoder(model + kWeight), name);
      EXPECT_EQ(name_in_decoder(head + "weight"), "lm_head.weight");
      EXPECT_EQ(found_name(name, has), model + kWeight);
      EXPECT_EQ(found_name("lm_head.weight", has), head + "weight");
      EXPECT_EQ(name_in_whole(part, name), std::string("model.language_model.") + kWeight);
      EXPECT_EQ(name_in_whole(part, "lm_head"), "lm_head");
    }
  }
}

TEST(TextPartNames, StayWhereThereIsNone) {
  for (const std::string name : {"model.layers.0.input_layernorm.weight", "shared.weight", "transformer.wte.weight"}) {
    EXPECT_EQ(stored_name(std::nullopt, name), name);
    EXPECT_EQ(name_in_whole(std::nullopt, name), name);
    EXPECT_EQ(name_in_decoder(name), name);
    EXPECT_EQ(found_name(name, [](const auto&) { return false; }), name);
  }
}

TEST(TextPartNames, AreNotThoseOfOtherParts) {
  for (const char* other : {"visual.blocks.0.attn.qkv.weight", "model.visual.merger.norm.weight", "mtp.fc.weight",
                            "vision_tower.x", "model.vision_tower.x", "multi_modal_projector.norm.weight"}) {
    EXPECT_TRUE(weights::is_of_other_part(other)) << other;
  }
  for (const char* text : {"model.layers.0.visual.weight", "language_model.model.norm.weight", "visuals.weight", "x"}) {
    EXPECT_FALSE(weights::is_of_other_part(text)) << text;
  }
}

}  // namespace
}  // namespace fathom::arch
