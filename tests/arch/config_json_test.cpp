// What config.json says by a key without a value: the same for every family, whatever way it is said.
#include "arch/config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "arch/families.h"
#include "base/error.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

using ::testing::HasSubstr;

constexpr const char* kNone[] = {"null", "false", "0", "0.0", "\"\"", "[]", "{}"};

// Of a family that has the part itself the key says how: there none is one of the values, or refused.
bool is_its_own(const Family& family, const std::string& key) {
  const std::set<std::string> of_sigmoids = {"n_group", "topk_group", "n_shared_experts", "routed_scaling_factor"};
  const std::set<std::string> dropouts = {"resid_pdrop", "embd_pdrop", "attn_pdrop"};
  if (key == "sliding_window" || key == "use_sliding_window") return family.windows != Windows::kNone;
  if (key == "num_experts" || key == "num_local_experts")
    return family.experts != ExpertKeys::kNone || family.keys == Keys::kGraniteHybrid;
  if (key == "use_qk_norm") return family.query_key_norm_by_key;
  const bool deepseeks = family.latent || family.experts == ExpertKeys::kGlm4Moe;
  if (deepseeks && of_sigmoids.contains(key)) return true;
  if (key == "shared_expert_intermediate_size")
    return family.experts == ExpertKeys::kQwen2Moe || family.experts == ExpertKeys::kQwen35Moe ||
           family.experts == ExpertKeys::kQwen3Next;
  if (key == "attn_logit_softcapping") return family.attn_logit_softcapping != 0;
  if (key == "final_logit_softcapping") return family.final_logit_softcapping != 0;
  if (key == "is_encoder_decoder") return family.keys == Keys::kT5;
  if (key == "attention_dropout") return family.dropout != 0;
  return family.keys == Keys::kGpt2 && dropouts.contains(key);
}

const Family& family_of(const Json& config) {
  for (const Family& family : families()) {
    if (config["architectures"][0] == family.name) return family;
  }
  throw Error("no family of " + config["architectures"].dump());
}

TEST(ConfigJson, NoneIsNoneInEveryFamilyHoweverItIsSaid) {
  std::set<std::string> seen;
  for (const auto& folder : std::filesystem::directory_iterator(FATHOM_SOURCE_DIR "/tests/model/golden")) {
    const Json golden = read_json(folder.path() / "config.json");
    if (golden.contains("text_config")) continue;
    const Family& family = family_of(golden);
    if (!seen.insert(std::string(family.name)).second) continue;
    for (const std::string key : ConfigJson::kKeysOfParts) {
      if (is_its_own(family, key)) continue;
      Json config = golden;
      config.erase(key);
      const Architecture without = parse_architecture(config, "config.json");
      for (const char* none : kNone) {
        config[key] = parse_json(none, "none");
        EXPECT_NO_THROW(EXPECT_EQ(parse_architecture(config, "config.json"), without))
            << family.name << ", " << key << ": " << none;
      }
    }
  }
  EXPECT_EQ(seen.size() + 1, families().size()) << "Mistral 4 is a text part alone";
}

// Each key is refused, or read, where it asks for something.
TEST(ConfigJson, APartThatIsAskedForIsNotOverlooked) {
  const Json dense = read_json(FATHOM_SOURCE_DIR "/tests/model/golden/grouped/config.json");
  const Json experts = read_json(FATHOM_SOURCE_DIR "/tests/model/golden/qwen3_moe/config.json");
  const Json gpt2 = read_json(FATHOM_SOURCE_DIR "/tests/model/golden/gpt2/config.json");
  for (const std::string key : ConfigJson::kKeysOfParts) {
    int noticed = 0;
    for (const Json& golden : {dense, experts, gpt2}) {
      Json config = golden;
      config[key] = 7;
      try {
        parse_architecture(config, "config.json");
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("config.json: "));
        ++noticed;
      }
    }
    EXPECT_GT(noticed, 0) << key;
  }
}

TEST(ConfigJson, AModelOfNoFamilyIsToldWhatElseThereIs) {
  try {
    parse_architecture(parse_json(R"({"architectures": ["NoneOfTheseForCausalLM"], "model_type": "none",
                                      "text_config": {"model_type": "x"}})",
                                  "config.json"),
                       "config.json");
    FAIL() << "it is of a family";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("[\"NoneOfTheseForCausalLM\"] is not supported; `fathom phantom --gpu H100 --no-weights"));
    EXPECT_THAT(error.what(), HasSubstr("LlamaForCausalLM"));
  }
}

}  // namespace
}  // namespace fathom::arch
