// The programs of layers: written out for a few families, and well formed for every shape that configs/models ships.
#include "arch/layer_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/json_value.h"
#include "tests/arch/known_models.h"

namespace fathom::arch {
namespace {

using ::testing::ElementsAre;

const char* name_of(StepKind kind) {
  switch (kind) {
    case StepKind::kNorm:
      return "norm";
    case StepKind::kRead:
      return "read";
    case StepKind::kLinear:
      return "linear";
    case StepKind::kSplit:
      return "split";
    case StepKind::kJoinHeads:
      return "join heads";
    case StepKind::kRowNorm:
      return "row norm";
    case StepKind::kRotateQueries:
      return "rotate queries";
    case StepKind::kRotateKeys:
      return "rotate keys";
    case StepKind::kAttend:
      return "attend";
    case StepKind::kAttendSource:
      return "attend to source";
    case StepKind::kConvolve:
      return "convolve";
    case StepKind::kDelta:
      return "delta";
    case StepKind::kGatedNorm:
      return "gated norm";
    case StepKind::kActivate:
      return "activate";
    case StepKind::kExperts:
      return "experts";
    case StepKind::kAddShared:
      return "add shared";
    case StepKind::kDrop:
      return "drop";
    case StepKind::kDropInside:
      return "drop inside";
    case StepKind::kScale:
      return "scale";
    case StepKind::kAdd:
      return "add";
    case StepKind::kScaleStream:
      return "scale stream";
  }
  return "";
}

// "2 = norm 0 (input_layernorm)"
std::vector<std::string> written(const LayerProgram& program) {
  const auto list = [](const std::vector<size_t>& values) {
    std::string text;
    for (const size_t value : values) text += std::to_string(value) + " ";
    return text;
  };
  std::vector<std::string> lines;
  for (const Step& step : program.steps) {
    std::string line = list(step.makes) + "= " + name_of(step.kind) + " " + list(step.reads);
    if (step.module != nullptr) line += std::string("(") + step.module + ")";
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> written(const std::string& model, size_t layer) {
  const Architecture architecture = architecture_of(model);
  return written(layer_program(architecture, architecture.layers[layer]));
}

TEST(LayerProgram, OfQwen3NormalisesAndTurnsHeads) {
  EXPECT_THAT(
      written("qwen3-0.6b", 0),
      ElementsAre("2 = norm 0 (input_layernorm)", "3 = linear 2 (self_attn.q_proj)",
                  "4 = row norm 3 (self_attn.q_norm)", "5 = rotate queries 4 ", "6 = linear 2 (self_attn.k_proj)",
                  "7 = row norm 6 (self_attn.k_norm)", "8 = rotate keys 7 ", "9 = linear 2 (self_attn.v_proj)",
                  "10 = attend 5 8 9 (self_attn)", "11 = linear 10 (self_attn.o_proj)", "12 = add 11 0 ",
                  "13 = norm 12 (post_attention_layernorm)", "14 = linear 13 (mlp.gate_proj)",
                  "15 = linear 13 (mlp.up_proj)", "16 = activate 14 15 (mlp.act_fn)", "17 = linear 16 (mlp.down_proj)",
                  "18 = add 17 12 "));
}

TEST(LayerProgram, OfHunyuanNormalisesHeadsThatAreTurned) {
  const std::vector<std::string> lines = written("hunyuan-mt-7b", 0);
  EXPECT_THAT(
      std::vector<std::string>(lines.begin() + 1, lines.begin() + 8),
      ElementsAre("3 = linear 2 (self_attn.q_proj)", "4 = rotate queries 3 ",
                  "5 = row norm 4 (self_attn.query_layernorm)", "6 = linear 2 (self_attn.k_proj)", "7 = rotate keys 6 ",
                  "8 = row norm 7 (self_attn.key_layernorm)", "9 = linear 2 (self_attn.v_proj)"));
}

TEST(LayerProgram, OfSeedOssDropsWhatEachBranchAdds) {
  const std::vector<std::string> lines = written("seed-oss-36b", 0);
  EXPECT_THAT(lines, ::testing::Contains("10 = drop 9 "));
  EXPECT_THAT(std::vector<std::string>(lines.end() - 4, lines.end()),
              ElementsAre("15 = activate 13 14 (mlp.act_fn)", "16 = linear 15 (mlp.down_proj)", "17 = drop 16 ",
                          "18 = add 17 11 "));
}

TEST(LayerProgram, OfCommandR7bReadsOneNormTwice) {
  EXPECT_THAT(
      written("command-r7b", 3),  // every fourth layer does not turn heads
      ElementsAre("2 = norm 0 (input_layernorm)", "3 = linear 2 (self_attn.q_proj)", "4 = linear 2 (self_attn.k_proj)",
                  "5 = linear 2 (self_attn.v_proj)", "6 = attend 3 4 5 (self_attn)", "7 = linear 6 (self_attn.o_proj)",
                  "8 = add 7 0 ", "9 = linear 2 (mlp.gate_proj)", "10 = linear 2 (mlp.up_proj)",
                  "11 = activate 9 10 (mlp.act_fn)", "12 = linear 11 (mlp.down_proj)", "13 = add 12 8 "));
}

TEST(LayerProgram, OfT5sDecoderAttendsToTheSource) {
  const Architecture t5 = architecture_of("flan-t5-small");
  const LayerProgram program = layer_program(t5, t5.layers.back());
  const std::vector<std::string> lines = written(program);
  EXPECT_THAT(std::vector<std::string>(lines.begin() + 8, lines.begin() + 16),
              ElementsAre("10 = norm 9 (layer.1.layer_norm)", "11 = linear 10 (layer.1.EncDecAttention.q)",
                          "12 = linear 1 (layer.1.EncDecAttention.k)", "13 = linear 1 (layer.1.EncDecAttention.v)",
                          "14 = attend to source 11 12 13 (layer.1.EncDecAttention)",
                          "15 = linear 14 (layer.1.EncDecAttention.o)", "16 = drop 15 ", "17 = add 16 9 "));
  EXPECT_TRUE(program.values[12].of_source);
  EXPECT_FALSE(program.values[14].of_source);
}

TEST(LayerProgram, OfLfm2ConvolvesOrAttends) {
  const std::vector<std::string> lines = written("lfm2-350m", 0);
  EXPECT_THAT(std::vector<std::string>(lines.begin(), lines.begin() + 6),
              ElementsAre("2 = norm 0 (operator_norm)", "3 = linear 2 (conv.in_proj)", "4 = convolve 3 (conv.conv)",
                          "5 = linear 4 (conv.out_proj)", "6 = add 5 0 ", "7 = norm 6 (ffn_norm)"));
  EXPECT_THAT(written("lfm2-350m", 2), ::testing::Contains("11 = linear 10 (self_attn.out_proj)"));
}

TEST(LayerProgram, OfQwen35HasTheDeltaRuleOrGatesWhatAttends) {
  const std::vector<std::string> lines = written("qwen3.5-4b", 0);
  EXPECT_THAT(
      std::vector<std::string>(lines.begin(), lines.begin() + 9),
      ElementsAre("2 = norm 0 (input_layernorm)", "3 = linear 2 (linear_attn.in_proj_qkv)",
                  "4 = linear 2 (linear_attn.in_proj_z)", "5 = linear 2 (linear_attn.in_proj_b)",
                  "6 = linear 2 (linear_attn.in_proj_a)", "7 = delta 3 5 6 (linear_attn)",
                  "8 = gated norm 7 4 (linear_attn.norm)", "9 = linear 8 (linear_attn.out_proj)", "10 = add 9 0 "));
  const std::vector<std::string> attending = written("qwen3.5-4b", 3);
  EXPECT_EQ(attending[1], "3 = linear 2 (self_attn.q_proj)");
  EXPECT_EQ(attending[2], "4 5 = split 3 ");
  EXPECT_THAT(attending, ::testing::Contains("13 = activate 5 12 "));
}

TEST(LayerProgram, OfGemma4NormalisesValuesWhichMayBeKeys) {
  const std::vector<std::string> lines = written("gemma-4-31b", 5);
  EXPECT_THAT(std::vector<std::string>(lines.begin() + 4, lines.begin() + 10),
              ElementsAre("6 = linear 2 (self_attn.k_proj)", "7 = row norm 6 (self_attn.k_norm)", "8 = rotate keys 7 ",
                          "9 = row norm 6 (self_attn.v_norm)", "10 = attend 5 8 9 (self_attn)",
                          "11 = linear 10 (self_attn.o_proj)"));
  EXPECT_EQ(lines.back(), "21 = scale stream 20 (layer_scalar)");
  const std::vector<std::string> windowed = written("gemma-4-31b", 0);
  EXPECT_THAT(std::vector<std::string>(windowed.begin() + 7, windowed.begin() + 9),
              ElementsAre("9 = linear 2 (self_attn.v_proj)", "10 = row norm 9 (self_attn.v_norm)"));
}

TEST(LayerProgram, OfDeepseekMakesHeadsOfNarrowRows) {
  const std::vector<std::string> lines = written("deepseek-v3", 0);
  EXPECT_THAT(std::vector<std::string>(lines.begin(), lines.begin() + 17),
              ElementsAre("2 = norm 0 (input_layernorm)", "3 = linear 2 (self_attn.q_a_proj)",
                          "4 = row norm 3 (self_attn.q_a_layernorm)", "5 = linear 4 (self_attn.q_b_proj)",
                          "6 = linear 2 (self_attn.kv_a_proj_with_mqa)", "7 8 = split 6 ",
                          "9 = row norm 7 (self_attn.kv_a_layernorm)", "10 = linear 9 (self_attn.kv_b_proj)",
                          "11 12 = split 10 ", "13 = rotate queries 5 ", "14 = join heads 11 8 ",
                          "15 = rotate keys 14 ", "16 = join heads 12 ", "17 = attend 13 15 16 (self_attn)",
                          "18 = split 17 ", "19 = linear 18 (self_attn.o_proj)", "20 = add 19 0 "));
  // Queries of the stream; values as wide as keys.
  EXPECT_EQ(written("moonlight-16b-a3b", 0)[1], "3 = linear 2 (self_attn.q_proj)");
  EXPECT_THAT(written("glm-4.7-flash", 0), ::testing::Contains("16 = attend 13 15 12 (self_attn)"));
}

TEST(LayerProgram, OfExpertsIsOneStep) {
  const std::vector<std::string> lines = written("olmoe-1b-7b", 0);
  EXPECT_THAT(std::vector<std::string>(lines.end() - 3, lines.end()),
              ElementsAre("13 = norm 12 (post_attention_layernorm)", "14 = experts 13 (mlp.gate)", "15 = add 14 12 "));
}

TEST(LayerProgram, OfSharedExpertsAddsWhatEveryTokenHas) {
  const std::vector<std::string> lines = written("qwen3.5-35b-a3b", 0);
  EXPECT_THAT(
      std::vector<std::string>(lines.end() - 8, lines.end()),
      ElementsAre("12 = experts 11 (mlp.gate)", "13 = linear 11 (mlp.shared_expert.gate_proj)",
                  "14 = linear 11 (mlp.shared_expert.up_proj)", "15 = linear 11 (mlp.shared_expert_gate)",
                  "16 = activate 13 14 (mlp.shared_expert.act_fn)", "18 = linear 16 (mlp.shared_expert.down_proj)",
                  "17 = add shared 12 18 15 ", "19 = add 17 10 "));
}

// Behind the norm: what lies together by key head is taken apart, queries, keys and values beside each other.
TEST(LayerProgram, OfQwen3NextTakesKeyHeadsApart) {
  const Architecture next =
      parse_architecture(read_json(FATHOM_SOURCE_DIR "/configs/models/qwen3-next-80b-a3b/config.json"), "");
  const LayerProgram program = layer_program(next, next.layers.front());
  const auto split = std::find_if(program.steps.begin(), program.steps.end(),
                                  [](const Step& step) { return step.kind == StepKind::kSplit; });
  ASSERT_NE(split, program.steps.end());
  EXPECT_EQ(split->groups, 16);
  EXPECT_EQ(split->parts, (std::vector<std::vector<int64_t>>{{128, 128, 256}, {256}}));
  EXPECT_EQ(program.values[split->makes[0]].width, 8192);
  EXPECT_EQ(program.values[split->makes[1]].width, 4096);
}

void expect_well_formed(const LayerProgram& program, int64_t width) {
  std::set<size_t> made = {LayerProgram::kStream, LayerProgram::kSource};
  for (size_t number = 0; number < program.steps.size(); ++number) {
    const Step& step = program.steps[number];
    for (const size_t value : step.reads) {
      EXPECT_TRUE(made.contains(value)) << "value " << value << " is read before it is made";
      EXPECT_GE(program.values[value].last_read_by, number);
    }
    for (const size_t value : step.makes) {
      EXPECT_TRUE(made.insert(value).second) << "value " << value << " is made twice";
      EXPECT_EQ(program.values[value].made_by, number);
    }
    const auto sum = [&](const std::vector<size_t>& values) {
      int64_t widths = 0;
      for (const size_t value : values) widths += program.values[value].width;
      return widths;
    };
    if (step.kind == StepKind::kSplit) {
      // Of what attention made of widened values, the rest is left out.
      const size_t maker = program.values[step.reads.front()].made_by;
      const bool cuts = program.steps[maker].kind == StepKind::kAttend;
      EXPECT_EQ(sum(step.makes) < sum(step.reads), cuts);
      EXPECT_LE(sum(step.makes), sum(step.reads));
    } else if (step.kind == StepKind::kAdd) {
      EXPECT_EQ(sum(step.reads), 2 * width);
    } else if (step.kind == StepKind::kLinear) {
      EXPECT_THAT(step.sharing, ::testing::Contains(number));
    }
    for (const size_t other : step.sharing) EXPECT_EQ(program.steps[other].reads, step.reads);
  }
  EXPECT_EQ(made.size(), program.values.size());
  EXPECT_EQ(program.values.back().width, width);
  EXPECT_EQ(program.values.back().last_read_by, Value::kNone);
}

TEST(LayerProgram, IsWellFormedForEveryShape) {
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    SCOPED_TRACE(entry.path().filename());
    const Architecture architecture = architecture_of(entry.path().filename());
    for (const LayerSpec& layer : architecture.layers) {
      expect_well_formed(layer_program(architecture, layer), architecture.hidden_size);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace fathom::arch
