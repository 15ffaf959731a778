// Modules trained whole beside adapters: the dry run against the run itself, the formulas against the dry run, and what
// a question to the phantom carries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "arch/parameter_table.h"
#include "plan/estimate/analytic.h"
#include "plan/time/arithmetic.h"
#include "play/make_plan.h"
#include "tests/play/matrix_run.h"

namespace fathom::play::modules_to_save_test {
namespace {

using memory::Component;

// modules_to_save, precision, attention, checkpointing, tied
using Case = std::tuple<const char*, const char*, config::Attention, bool, bool>;

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> list(1);
  for (const char c : text) {
    if (c == ' ') {
      list.emplace_back();
    } else {
      list.back() += c;
    }
  }
  return list;
}

plan::testing::MatrixRun run_of(const Case& settings) {
  const auto& [modules, precision, attention, checkpointing, tied] = settings;
  plan::testing::MatrixRun run;
  run.config.random_init = true;
  run.config.device = config::Device::kCpu;
  run.config.num_threads = 1;
  run.config.method = config::Method::kLora;
  run.config.modules_to_save = words(modules);
  run.config.dtype = std::string(precision).starts_with("bf16") ? DType::kBF16 : DType::kF32;
  run.config.bf16 = std::string(precision).ends_with("autocast");
  run.config.attn_implementation = attention;
  run.config.gradient_checkpointing = checkpointing;
  run.config.gradient_accumulation_steps = 2;
  run.config.loss_chunk_size = checkpointing ? 31 : 1024;
  run.config.eval_strategy = config::Cadence::kEpoch;
  run.architecture.family = "Qwen3ForCausalLM";
  run.architecture.vocab_size = 1003;
  run.architecture.hidden_size = 91;
  run.architecture.layers.assign(3, {.mixer = arch::Attention{.heads = 4,
                                                              .key_value_heads = 2,
                                                              .head_dim = 20,
                                                              .input_bias = true,
                                                              .query_key_norm = arch::QueryKeyNorm::kEachHead,
                                                              .rotary = arch::Rotary{.width = 20}},
                                     .feed_forward = {.width = 150}});
  run.architecture.tie_word_embeddings = tied;
  run.steps = {{{3, 70, 150}, {2, 55, 80}}};
  run.evaluations = {{2, 70, 138}};
  return run;
}

class ModulesToSave : public ::testing::TestWithParam<Case> {};

TEST_P(ModulesToSave, ArePredictedToTheByte) {
  const plan::testing::MatrixRun run = run_of(GetParam());
  EXPECT_THAT(testing::differences(testing::predict(run), testing::measure(run)), ::testing::IsEmpty());
}

TEST_P(ModulesToSave, AreInTheFormulas) {
  const plan::testing::MatrixRun run = run_of(GetParam());
  const plan::Workload workload = testing::workload_of(run);
  plan::Target target = cpu_target();
  target.attention_kernel =
      run.config.attn_implementation == config::Attention::kMath ? "math attention" : "flash attention";
  const plan::Analytic analytic =
      plan::estimate_analytic(arch::resolve(run.config, run.architecture), target, workload);
  const DryRun played = dry_run_cpu(arch::resolve(run.config, run.architecture), nullptr, workload);
  EXPECT_NEAR(static_cast<double>(analytic.peak) / static_cast<double>(played.memory.peak), 1, 0.03);
  for (const Component component : {Component::kWeights, Component::kOptimizerStates, Component::kGradients}) {
    EXPECT_EQ(analytic.maximum[component], played.memory.maximum[component]) << component_name(component);
  }
  const plan::Arithmetic formula =
      plan::estimate_arithmetic(arch::resolve(run.config, run.architecture), run.steps.front()).whole();
  const plan::Arithmetic counted = played.arithmetic.whole();
  EXPECT_EQ(formula.matrix_flops, counted.matrix_flops);
  EXPECT_EQ(formula.attention_flops, counted.attention_flops);
}

TEST_P(ModulesToSave, AreCountedAsTrained) {
  const plan::testing::MatrixRun run = run_of(GetParam());
  const arch::ParameterTable parameters = arch::resolve(run.config, run.architecture).parameters;
  const int64_t saved = parameters.trained_base_count();
  EXPECT_GT(saved, 0);
  EXPECT_EQ(testing::workload_of(run).trained_parameters, saved + parameters.adapter_count());
}

constexpr std::array<const char*, 6> kModules = {
    "embed_tokens lm_head",        "embed_tokens", "lm_head norm", "self_attn.k_norm layers.1.input_layernorm",
    "k_proj layers.2.mlp.up_proj", "model.norm"};

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  const auto& [modules, precision, attention, checkpointing, tied] = info.param;
  std::string name = std::string(modules) + "_" + precision +
                     (attention == config::Attention::kMath ? "_math" : "_flash") +
                     (checkpointing ? "_checkpointing" : "") + (tied ? "_tied" : "");
  for (char& c : name) c = c == ' ' || c == '.' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Every, ModulesToSave,
                         ::testing::Combine(::testing::ValuesIn(kModules),
                                            ::testing::Values("fp32", "fp32_autocast", "bf16", "bf16_autocast"),
                                            ::testing::Values(config::Attention::kFlash, config::Attention::kMath),
                                            ::testing::Bool(), ::testing::Bool()),
                         name_of);

}  // namespace
}  // namespace fathom::play::modules_to_save_test
