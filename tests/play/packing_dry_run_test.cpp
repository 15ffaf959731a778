// Packed runs and sliding windows: the dry run is the run to the byte, the analytic estimate follows, and of a list of
// documents a few sums decide.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/split_mix.h"
#include "plan/estimate/analytic.h"
#include "play/dry_run.h"
#include "play/make_plan.h"
#include "tests/train/tiny.h"

namespace fathom::play::packing_dry_run_test {
namespace {

using Lengths = std::vector<int64_t>;

struct Setting {
  const char* name;
  config::Attention attention = config::Attention::kFlash;
  bool checkpointing = false, lora = false, autocast = false;
  DType dtype = DType::kF32;
  int64_t window = 0, key_heads = 2;
  bool packing = true;
};

config::RunConfig config_of(const Setting& setting) {
  config::RunConfig config = train::testing::tiny_config();
  config.packing = setting.packing;
  config.attn_implementation = setting.attention;
  config.gradient_checkpointing = setting.checkpointing;
  if (setting.lora) config.method = config::Method::kLora;
  if (setting.lora) config.lora_dropout = 0.1;
  config.bf16 = setting.autocast;
  config.dtype = setting.dtype;
  config.eval_strategy = config::Cadence::kEpoch;
  return config;
}

arch::Architecture architecture_of(const Setting& setting) {
  arch::Architecture architecture = train::testing::tiny_architecture();
  for (arch::LayerSpec& layer : architecture.layers) layer.attention().key_value_heads = setting.key_heads;
  architecture.layers.front().attention().window = setting.window;
  return architecture;
}

schedule::BatchShape packed(const Lengths& lengths) {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  return {1, tokens, tokens - static_cast<int64_t>(lengths.size()), lengths};
}

data::Batch batch_of(const schedule::BatchShape& shape) {
  Lengths lengths = shape.document_lengths;
  if (lengths.empty()) lengths.assign(static_cast<size_t>(shape.rows), shape.length);
  const data::Dataset dataset = train::testing::random_dataset(lengths, 101, 5);
  Lengths rows(lengths.size());
  std::iota(rows.begin(), rows.end(), 0);
  return shape.document_lengths.empty() ? data::make_batch(dataset, rows, 0) : data::make_packed_batch(dataset, rows);
}

memory::Memory measure(const config::RunConfig& config, const arch::Architecture& architecture,
                       const std::vector<schedule::StepShape>& steps, const plan::Workload& workload) {
  memory::Memory memory;
  train::testing::cpu_ledger().label();
  train::Trainer trainer(arch::resolve(config, architecture), workload.capacity_tokens,
                         {at::kCPU, &train::testing::cpu_ledger(), nullptr});
  trainer.model().reserve_positions(plan::longest_sequence(workload));
  trainer.model().initialise(1);
  memory.merge(trainer.loaded());
  for (const schedule::StepShape& step : steps) {
    std::vector<data::Batch> batches;
    for (const schedule::BatchShape& batch : step) batches.push_back(batch_of(batch));
    memory.merge(trainer.step(batches, 1e-3).memory);
  }
  const std::vector<data::Batch> evaluation = {batch_of(workload.evaluations.front())};
  memory.merge(trainer.evaluate(evaluation).memory);
  memory.merge(trainer.saving([] {}));
  return memory;
}

class PackedDryRun : public ::testing::TestWithParam<Setting> {};

TEST_P(PackedDryRun, EqualsTheRunToTheByteAndTheFormulaFollows) {
  const config::RunConfig config = config_of(GetParam());
  const arch::Architecture architecture = architecture_of(GetParam());
  train::testing::cpu_ledger();
  std::vector<schedule::StepShape> steps = {{packed({33, 5, 1, 2, 18}), packed({60})},
                                            {packed({7, 7, 7, 7, 7, 7, 7, 7})}};
  if (!GetParam().packing) steps = {{schedule::whole_batch(3, 19), schedule::whole_batch(1, 50)}};
  const plan::Workload workload = plan::make_workload(
      arch::resolve(config, architecture), schedule::imagined_schedule(schedule::maximal_shapes(steps), {steps[0][0]}));
  const DryRun played = dry_run_cpu(arch::resolve(config, architecture), nullptr, workload);
  const memory::Memory& dry = played.memory;
  const memory::Memory real = measure(config, architecture, steps, workload);
  EXPECT_EQ(dry.peak, real.peak);
  for (const memory::Component component : memory::kComponents) {
    EXPECT_EQ(dry.at_peak[component], real.at_peak[component]) << component_name(component);
    EXPECT_EQ(dry.maximum[component], real.maximum[component]) << component_name(component);
  }
  for (const memory::Phase phase : memory::kPhases) {
    EXPECT_EQ(dry.phase(phase).peak, real.phase(phase).peak) << phase_name(phase);
  }
  const plan::Arithmetic formula =
      plan::estimate_arithmetic(arch::resolve(config, architecture),
                                plan::longest_step(arch::resolve(config, architecture), workload.steps))
          .whole();
  const plan::Arithmetic counted = played.arithmetic.whole();
  EXPECT_EQ(formula.matrix_flops, counted.matrix_flops);
  EXPECT_EQ(formula.attention_flops, counted.attention_flops);
  plan::Target target = cpu_target();
  target.attention_kernel =
      config.attn_implementation == config::Attention::kMath ? "math attention" : "flash attention";
  const plan::Analytic analytic = plan::estimate_analytic(arch::resolve(config, architecture), target, workload);
  EXPECT_NEAR(static_cast<double>(analytic.peak) / static_cast<double>(dry.peak), 1, 0.05) << analytic.instant;
  for (const auto component :
       {memory::Component::kWeights, memory::Component::kOptimizerStates, memory::Component::kGradients}) {
    EXPECT_EQ(analytic.maximum[component], dry.maximum[component]) << "largest " << component_name(component);
  }
}

constexpr auto kMath = config::Attention::kMath;
INSTANTIATE_TEST_SUITE_P(
    Settings, PackedDryRun,
    ::testing::Values(Setting{.name = "flash"}, Setting{.name = "math", .attention = kMath},
                      Setting{.name = "checkpointed", .checkpointing = true},
                      Setting{.name = "lora", .checkpointing = true, .lora = true},
                      Setting{.name = "lora_math", .attention = kMath, .lora = true, .dtype = DType::kBF16},
                      Setting{.name = "autocast", .autocast = true}, Setting{.name = "bf16", .dtype = DType::kBF16},
                      Setting{.name = "ungrouped", .key_heads = 4}, Setting{.name = "multi_query", .key_heads = 1},
                      Setting{.name = "window", .window = 9},
                      Setting{.name = "window_bf16", .dtype = DType::kBF16, .window = 9},
                      Setting{.name = "window_bf16_ungrouped", .dtype = DType::kBF16, .window = 9, .key_heads = 4},
                      Setting{.name = "window_math", .attention = kMath, .window = 9},
                      Setting{.name = "window_padded", .window = 9, .packing = false},
                      Setting{.name = "window_padded_math", .attention = kMath, .window = 9, .packing = false},
                      Setting{.name = "window_padded_checkpointed_autocast",
                              .checkpointing = true,
                              .autocast = true,
                              .window = 9,
                              .packing = false}),
    [](const auto& info) { return std::string(info.param.name); });

// ---- which properties of the list decide.

struct Summary {
  int64_t tokens = 0, count = 0, longest = 0, squares = 0;
  explicit Summary(const Lengths& lengths) : count(static_cast<int64_t>(lengths.size())) {
    for (const int64_t length : lengths) {
      tokens += length;
      longest = std::max(longest, length);
      squares += length * length;
    }
  }
  bool covers(const Summary& other) const {
    return tokens >= other.tokens && count >= other.count && longest >= other.longest && squares >= other.squares;
  }
};

Lengths drawn(SplitMix64& random) {
  Lengths lengths;
  for (auto left = static_cast<int64_t>(40 + random.below(30)); left > 0; left -= lengths.back()) {
    lengths.push_back(std::min(left, 1 + static_cast<int64_t>(random.below(1 + random.below(40)))));
  }
  return lengths;
}

memory::Memory dry_run_of(const config::RunConfig& config, const arch::Architecture& architecture,
                          const Lengths& lengths) {
  schedule::BatchShape batch = packed(lengths);
  batch.targets = 30;
  plan::Workload workload =
      plan::make_workload(arch::resolve(config, architecture), schedule::imagined_schedule({{batch}}, {batch}));
  workload.capacity_tokens = 128;
  workload.evaluations.push_back(schedule::whole_batch(1, 64, true));  // the same rotary tables for all
  return dry_run_cpu(arch::resolve(config, architecture), nullptr, workload).memory;
}

TEST(DocumentsOfAPackedRow, TakeNoMoreThanAListThatCoversThem) {
  for (const Setting& setting : {Setting{.name = ""}, Setting{.name = "", .attention = kMath},
                                 Setting{.name = "", .dtype = DType::kBF16, .window = 9}}) {
    const config::RunConfig config = config_of(setting);
    const arch::Architecture architecture = architecture_of(setting);
    SplitMix64 random(17);
    std::vector<std::pair<Summary, memory::Memory>> seen;
    int64_t covered = 0;
    for (int i = 0; i < 40; ++i) {
      Lengths lengths = drawn(random);
      const memory::Memory memory = dry_run_of(config, architecture, lengths);
      std::reverse(lengths.begin(), lengths.end());
      EXPECT_EQ(memory, dry_run_of(config, architecture, lengths)) << "their order decides";
      seen.emplace_back(Summary(lengths), memory);
    }
    for (const auto& [large, most] : seen) {
      for (const auto& [small, less] : seen) {
        if (!large.covers(small)) continue;
        ++covered;
        EXPECT_GE(most.peak, less.peak);
        for (const memory::Component component : memory::kComponents) {
          EXPECT_GE(most.maximum[component], less.maximum[component]) << component_name(component);
        }
        for (const memory::Phase phase : memory::kPhases) EXPECT_GE(most.phase(phase).peak, less.phase(phase).peak);
      }
    }
    EXPECT_GT(covered, 100);  // more than each list itself
  }
}

}  // namespace
}  // namespace fathom::play::packing_dry_run_test
