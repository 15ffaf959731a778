// What follows of a run's settings and its model, for several families.
#include "arch/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/json_value.h"
#include "tests/arch/known_models.h"

namespace fathom::arch {
namespace {

using config::RunConfig;
using ::testing::HasSubstr;

Architecture shape(const char* name) {
  const std::string file = (kModels / name / "config.json").string();
  return parse_architecture(read_json(file), file);
}

RunConfig lora() {
  RunConfig config;
  config.method = config::Method::kLora;
  return config;
}

std::string refusal(const RunConfig& config, const Architecture& architecture) {
  try {
    resolve(config, architecture);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(Runs, LeaveOutNothingWhereAReferenceDoesNot) {
  RunConfig config;
  EXPECT_EQ(resolve(config, shape("gpt2")).architecture.dropout, 0.1);
  config.objective = config::Objective::kDpo;
  const Architecture trained = resolve(config, shape("gpt2")).architecture;
  EXPECT_EQ(trained.dropout, 0);
  EXPECT_EQ(trained.embedding_dropout, 0);
  EXPECT_EQ(resolve(config, shape("seed-oss-36b")).architecture.dropout, 0);
}

TEST(Runs, TrainEveryWeightInFp32UnlessToldOtherwise) {
  for (const char* name : {"llama-3.2-1b", "gpt2", "t5-small", "olmoe-1b-7b"}) {
    const Architecture architecture = shape(name);
    const arch::Run run = resolve({}, architecture);
    EXPECT_EQ(run.precision.stored, DType::kF32) << name;
    EXPECT_EQ(run.precision.computed, DType::kF32) << name;
    EXPECT_EQ(run.precision.autocast, std::nullopt) << name;
    EXPECT_EQ(run.parameters.trained_count(), parameter_count(architecture)) << name;
    EXPECT_EQ(run.parameters.adapter_count(), 0) << name;
    EXPECT_EQ(run.adapter_casts, std::nullopt) << name;
    EXPECT_EQ(run.gathered_casts.type, std::nullopt) << name;
  }
}

TEST(Runs, KeepAFrozenBaseAsItIsStored) {
  const arch::Run llama = resolve(lora(), shape("llama-3.2-1b"));
  EXPECT_EQ(llama.precision.stored, DType::kBF16);
  EXPECT_EQ(llama.precision.computed, DType::kBF16);
  EXPECT_EQ(llama.parameters.rows.front().dtype, DType::kBF16);
  EXPECT_EQ(llama.parameters.rows.back().dtype, DType::kF32) << "of an adapter";
  EXPECT_EQ(llama.parameters.trained_base_count(), 0);
  EXPECT_EQ(llama.parameters.adapter_count(), 16 * 8 * ((2048 + 2048) + (2048 + 512))) << "queries and values, rank 8";

  Architecture t5 = shape("t5-small");
  t5.dtype = DType::kF16;
  EXPECT_EQ(resolve(lora(), t5).precision.stored, DType::kF32) << "FP16 does not hold what T5 makes";
}

TEST(Runs, ComputeInAutocastsType) {
  RunConfig config = lora();
  config.bf16 = true;
  config.dtype = DType::kF32;
  const arch::Run run = resolve(config, shape("llama-3.2-1b"));
  EXPECT_EQ(run.precision.stored, DType::kF32);
  EXPECT_EQ(run.precision.computed, DType::kBF16);
  EXPECT_EQ(run.adapter_casts, DType::kBF16);
  config.dtype.reset();
  config.bf16 = false;
  config.fp16 = true;
  EXPECT_EQ(resolve(config, shape("llama-3.2-1b")).precision.stored, DType::kF16) << "two 16-bit types never meet";
}

TEST(Runs, GatherCastsWhereProcessesShareTheModel) {
  RunConfig config = lora();
  config.bf16 = true;
  config.num_processes = 4;
  EXPECT_EQ(resolve(config, shape("llama-3.2-1b")).gathered_casts.type, std::nullopt) << "each has all of it";
  config.strategy = config::Strategy::kFsdp;
  const arch::Run shared = resolve(config, shape("llama-3.2-1b"));
  EXPECT_EQ(shared.gathered_casts.type, DType::kBF16);
  EXPECT_TRUE(shared.gathered_casts.of_projections);
  EXPECT_EQ(shared.adapter_casts, std::nullopt);
  config.method = config::Method::kFull;
  config.qat = config::Qat::kInt8;
  EXPECT_FALSE(resolve(config, shape("llama-3.2-1b")).gathered_casts.of_projections) << "which are rounded first";
}

TEST(Runs, KeepFrozenProjectionsInCodes) {
  RunConfig config = lora();
  config.load_in_4bit = config.bnb_4bit_use_double_quant = true;
  const arch::Run run = resolve(config, shape("llama-3.2-1b"));
  EXPECT_EQ(run.settings.base_scheme, quant::Scheme::kNf4DoubleQuant);
  EXPECT_EQ(run.settings.fake_scheme, std::nullopt);
  EXPECT_EQ(run.parameters.coded_count(), 16 * (2048 * (2 * 2048 + 2 * 512) + 3 * 2048 * 8192));

  Architecture stored = shape("llama-3.2-1b");
  stored.quantized.emplace().scheme = quant::Scheme::kInt8;
  EXPECT_EQ(resolve(lora(), stored).settings.base_scheme, quant::Scheme::kInt8) << "as the folder has them";
  EXPECT_THAT(refusal(config, stored), HasSubstr("remove load_in_4bit"));
}

TEST(Runs, LearnStepSizesWhereTheyRoundWhileTheyTrain) {
  RunConfig config;
  config.qat = config::Qat::kInt4;
  config.bf16 = true;
  const arch::Run run = resolve(config, shape("llama-3.2-1b"));
  EXPECT_EQ(run.settings.fake_scheme, quant::kInt4Schemes[0]) << "the largest groups, which divide all rows";
  EXPECT_GT(run.parameters.count_of(Role::kStepSizes), 0);
  EXPECT_EQ(run.adapter_casts, std::nullopt);
}

TEST(Runs, AreRefusedForModulesThatTheModelLacks) {
  RunConfig config = lora();
  config.target_modules = {"c_attn"};
  EXPECT_EQ(refusal(config, shape("gpt2")), "");
  EXPECT_THAT(refusal(config, shape("llama-3.2-1b")), HasSubstr("c_attn"));
  config.target_modules = {};
  config.modules_to_save = {"wte"};
  EXPECT_THAT(refusal(config, shape("llama-3.2-1b")), HasSubstr("modules_to_save: 'wte'"));
}

TEST(Runs, AreTheSameForTheSameSettings) {
  RunConfig config = lora();
  config.modules_to_save = {"lm_head"};
  const arch::Run once = resolve(config, shape("qwen2.5-0.5b")), again = resolve(once.config, once.architecture);
  EXPECT_EQ(once.config, config);
  EXPECT_EQ(again.config, config);
  EXPECT_EQ(again.architecture, shape("qwen2.5-0.5b"));
  ASSERT_EQ(again.parameters.rows.size(), once.parameters.rows.size());
  for (size_t i = 0; i < once.parameters.rows.size(); ++i) {
    EXPECT_EQ(again.parameters.rows[i].spec.name, once.parameters.rows[i].spec.name);
    EXPECT_EQ(again.parameters.rows[i].trained, once.parameters.rows[i].trained);
  }
}

}  // namespace
}  // namespace fathom::arch
