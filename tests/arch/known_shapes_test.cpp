// The shapes that configs/models ships: as many parameters as their publishers count.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "arch/architecture.h"
#include "base/json_value.h"
#include "tests/arch/known_models.h"

namespace fathom::arch {
namespace {

TEST(KnownShapes, CountAsManyParametersAsPublished) {
  const std::map<std::string, int64_t> published = {
      {"deepseek-llm-7b", 6'910'365'696},   {"llama-2-13b", 13'015'864'320},
      {"llama-2-70b", 68'976'648'192},      {"llama-2-7b", 6'738'415'616},
      {"llama-3-70b", 70'553'706'496},      {"llama-3-8b", 8'030'261'248},
      {"llama-3.1-70b", 70'553'706'496},    {"llama-3.1-405b", 405'853'388'800},
      {"llama-3.1-8b", 8'030'261'248},      {"llama-3.2-1b", 1'235'814'400},
      {"llama-3.2-3b", 3'212'749'824},      {"smollm2-1.7b", 1'711'376'384},
      {"smollm2-135m", 134'515'008},        {"smollm2-360m", 361'821'120},
      {"tinyllama-1.1b", 1'100'048'384},    {"yi-6b", 6'061'035'520},
      {"mistral-7b-v0.1", 7'241'732'096},   {"mistral-7b-v0.3", 7'248'023'552},
      {"mistral-nemo-12b", 12'247'782'400}, {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-1.5b", 1'543'714'304},      {"qwen2.5-3b", 3'085'938'688},
      {"qwen2.5-7b", 7'615'616'512},        {"qwen2.5-14b", 14'770'033'664},
      {"qwen2.5-32b", 32'763'876'352},      {"qwen2.5-72b", 72'706'203'648},
      {"qwen3-0.6b", 596'049'920},          {"qwen3-1.7b", 1'720'574'976},
      {"qwen3-4b", 4'022'468'096},          {"qwen3-8b", 8'190'735'360},
      {"qwen3-14b", 14'768'307'200},        {"qwen3-32b", 32'762'123'264},
      {"olmo-2-1b", 1'484'916'736},         {"olmo-2-7b", 7'298'617'344},
      {"olmo-2-13b", 13'716'198'400},       {"olmo-2-32b", 32'234'279'936},
      {"mixtral-8x7b", 46'702'792'704},     {"olmoe-1b-7b", 6'919'161'856},
      {"qwen3-30b-a3b", 30'532'122'624},    {"qwen3-235b-a22b", 235'093'634'560},
      {"flan-t5-small", 76'961'152},        {"flan-t5-base", 247'577'856},
      {"flan-t5-large", 783'150'080},       {"flan-t5-xl", 2'849'757'184},
      {"flan-t5-xxl", 11'135'332'352},      {"t5-small", 60'506'624},
      {"gemma-3-270m", 268'098'176},        {"gemma-3-1b", 999'885'952},
      {"phi-3-mini-4k", 3'821'079'552},     {"phi-4", 14'659'507'200},
      {"olmo-3-7b", 7'298'011'136},         {"olmo-3-32b", 32'233'522'176},
      {"smollm3-3b", 3'075'098'624},        {"granite-3.0-1b-a400m", 1'334'628'352},
      {"granite-3.3-2b", 2'533'539'840},    {"granite-3.3-8b", 8'170'864'640},
      {"glm-4-9b-0414", 9'400'279'040},     {"gemma-2-2b", 2'614'341'888},
      {"gemma-2-9b", 9'241'705'984},        {"gemma-2-27b", 27'227'128'320},
      {"command-r7b", 8'028'033'024},       {"gpt2", 124'439'808},
      {"gpt2-medium", 354'823'168},         {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200},           {"lfm2-350m", 354'483'968},
      {"lfm2-1.2b", 1'170'340'608},         {"gemma-2b", 2'506'172'416},
      {"gemma-7b", 8'537'680'896},          {"granite-4.0-350m", 352'379'904},
      {"granite-4.0-1b", 1'631'750'144},    {"granite-4.0-micro", 3'402'836'480},
      {"seed-oss-36b", 36'151'104'512},     {"exaone-4.0-1.2b", 1'279'391'488},
      {"exaone-4.0-32b", 32'003'216'384},   {"ernie-4.5-0.3b", 360'748'032},
      {"afm-4.5b", 4'619'184'640},          {"aya-expanse-8b", 8'028'033'024},
      {"command-r-v01", 34'980'831'232},    {"command-r-08-2024", 32'296'476'672},
      {"glm-4-9b", 9'399'951'360},          {"hunyuan-mt-7b", 7'504'932'864},
      {"gemma-3-4b", 3'880'263'168},        {"gemma-3-12b", 11'766'034'176},
      {"gemma-3-27b", 27'009'346'304},      {"gemma-4-12b", 11'907'350'320},
      {"gemma-4-31b", 30'697'345'340},      {"mistral-small-3.2-24b", 23'572'403'200},
      {"ministral-3-3b", 3'429'006'336},    {"ministral-3-8b", 8'489'553'920},
      {"ministral-3-14b", 13'506'073'600},  {"qwen2.5-vl-3b", 3'085'938'688},
      {"qwen2.5-vl-7b", 7'615'616'512},     {"qwen3-vl-4b", 4'022'468'096},
      {"qwen3-vl-8b", 8'190'735'360},       {"qwen3.5-4b", 4'205'751'296},
      {"qwen3.5-9b", 8'953'803'264},        {"qwen3.5-27b", 26'895'998'464},
      {"qwen3.5-35b-a3b", 34'660'610'688},  {"gpt-oss-20b", 20'914'757'184},
      {"gpt-oss-120b", 116'829'156'672},    {"qwen3-next-80b-a3b", 79'674'391'296},
      {"glm-4.5-air", 106'852'251'264},     {"glm-4.5", 352'797'829'024},
      {"deepseek-v3", 671'026'419'200},     {"moonlight-16b-a3b", 15'960'110'208},
      {"glm-4.7-flash", 29'943'393'920},    {"mistral-small-4", 118'972'826'624},
  };
  std::map<std::string, int64_t> counted;
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    const auto file = entry.path() / "config.json";
    counted[entry.path().filename()] = parameter_count(parse_architecture(read_json(file), file.string()));
  }
  EXPECT_EQ(counted, published);
}

// "8x7B" of which 12.9 are active, "30B-A3B", "235B-A22B", "1B-7B", "1B-A400M": the embedding counts among them. OpenAI
// (arXiv 2508.10925, table 1) counts 3.61 and 5.13 billion without it, as do the 12 and 32 billion of GLM-4.5.
TEST(KnownShapes, MultiplyATokenWithAFewOfTheirExperts) {
  EXPECT_EQ(active_parameter_count(architecture_of("mixtral-8x7b")), 12'879'925'248);
  EXPECT_NEAR(static_cast<double>(active_parameter_count(architecture_of("qwen3-30b-a3b"))), 3.3e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(active_parameter_count(architecture_of("qwen3-235b-a22b"))), 22e9, 0.5e9);
  EXPECT_NEAR(static_cast<double>(active_parameter_count(architecture_of("olmoe-1b-7b"))), 1.3e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(active_parameter_count(architecture_of("granite-3.0-1b-a400m"))), 0.4e9, 0.03e9);
  EXPECT_NEAR(static_cast<double>(active_parameter_count(architecture_of("qwen3-next-80b-a3b"))), 3.9e9, 0.1e9);
  for (const auto& [name, published] :
       {std::pair{"gpt-oss-20b", 3.61e9}, {"gpt-oss-120b", 5.13e9}, {"glm-4.5-air", 12.8e9}, {"glm-4.5", 32.86e9}}) {
    const Architecture shape = architecture_of(name);
    const int64_t embedding = shape.vocab_size * shape.hidden_size;
    EXPECT_NEAR(static_cast<double>(active_parameter_count(shape) - embedding), published, published / 500) << name;
  }
  const Architecture llama = architecture_of("llama-3.2-1b");
  EXPECT_EQ(active_parameter_count(llama), parameter_count(llama));
}

TEST(KnownShapes, AreOfTheirFamilies) {
  const auto scaling_of = [](const char* name) {
    return architecture_of(name).layers.front().attention().rotary->scaling;
  };
  EXPECT_EQ(scaling_of("llama-3.2-1b"), (RopeScaling(Llama3Rope{32, 1, 4, 8192})));
  EXPECT_EQ(scaling_of("llama-3.1-70b"), (RopeScaling(Llama3Rope{8, 1, 4, 8192})));
  EXPECT_EQ(architecture_of("mistral-7b-v0.1").sliding_window(), 4096);
  EXPECT_EQ(architecture_of("mistral-7b-v0.3").sliding_window(), 0);
  EXPECT_EQ(architecture_of("mistral-nemo-12b").head_dim(), 128);  // not 5120 / 32
  EXPECT_TRUE(architecture_of("qwen2.5-7b").layers.front().attention().input_bias);
  EXPECT_EQ(architecture_of("qwen2.5-7b").sliding_window(), 0);
  EXPECT_EQ(architecture_of("qwen3-0.6b").layers.front().attention().query_key_norm, QueryKeyNorm::kEachHead);
  EXPECT_EQ(architecture_of("olmo-2-7b").layers.front().attention().query_key_norm, QueryKeyNorm::kAllHeads);
  EXPECT_EQ(architecture_of("olmo-2-7b").layers.front().norms, NormPlacement::kAfter);
  EXPECT_EQ(*architecture_of("mixtral-8x7b").experts(), (Experts{8, 2, true, ExpertFiles::kMixtral}));
  EXPECT_EQ(*architecture_of("qwen3-30b-a3b").experts(), (Experts{128, 8, true}));
  EXPECT_EQ(*architecture_of("olmoe-1b-7b").experts(), (Experts{64, 8, false}));
  EXPECT_EQ(*architecture_of("gpt-oss-20b").experts(),
            (Experts{32, 4, true, ExpertFiles::kTurned, /*named_by_modules=*/false, /*biased=*/true, ClampedGate{}}));
  EXPECT_EQ(architecture_of("gpt-oss-120b").layers.front().attention().window, 128);
  EXPECT_EQ(architecture_of("gpt-oss-120b").layers.back().attention().window, 0);
  EXPECT_EQ(architecture_of("gemma-2-9b").layers.front().attention().window, 4096);
  EXPECT_EQ(architecture_of("gemma-2-9b").layers.back().attention().window, 0);
  EXPECT_FALSE(architecture_of("command-r7b").layers.back().attention().rotary);
  EXPECT_TRUE(architecture_of("command-r-v01").layers.back().attention().rotary);
  EXPECT_FALSE(architecture_of("exaone-4.0-32b").layers.back().attention().rotary);
  EXPECT_TRUE(architecture_of("exaone-4.0-1.2b").layers.back().attention().rotary);
  EXPECT_EQ(scaling_of("hunyuan-mt-7b"), RopeScaling(NtkRope{100000}));
  EXPECT_FALSE(architecture_of("afm-4.5b").layers.front().feed_forward.gated);
  EXPECT_EQ(architecture_of("seed-oss-36b").dropout, 0.1);
  const Architecture flan = architecture_of("flan-t5-xl"), first = architecture_of("t5-small");
  EXPECT_EQ(flan.encoder, (Encoder{24, 0}));
  EXPECT_EQ(flan.relative, (RelativePositions{32, 128}));
  EXPECT_EQ(first.relative, flan.relative) << "whose config.json does not say where distances end";
  EXPECT_TRUE(flan.layers.front().feed_forward.gated && !flan.tie_word_embeddings && flan.head_scale == 1);
  EXPECT_TRUE(!first.layers.front().feed_forward.gated && first.tie_word_embeddings && first.head_scale < 1);
}

}  // namespace
}  // namespace fathom::arch
