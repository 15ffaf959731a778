// Operations of a step: by formula, as a person counts them, and as the dry run's operators add up.
#include "play/arithmetic_count.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/time/arithmetic.h"
#include "play/dry_run.h"
#include "tests/train/tiny.h"

namespace fathom::play {
namespace {

using train::testing::tiny_architecture;
using train::testing::tiny_config;

// Batches whose tokens all count.
schedule::StepShape step_of(schedule::StepShape step) {
  for (schedule::BatchShape& batch : step) batch.targets = batch.rows * batch.length;
  return step;
}

plan::StepArithmetic played_parts(const config::RunConfig& config, const arch::Architecture& architecture,
                                  const schedule::StepShape& step) {
  return dry_run_cpu(arch::resolve(config, architecture), nullptr,
                     plan::make_workload(arch::resolve(config, architecture), schedule::imagined_schedule({step}, {})))
      .arithmetic;
}

plan::Arithmetic played(const config::RunConfig& config, const arch::Architecture& architecture,
                        const schedule::StepShape& step) {
  return played_parts(config, architecture, step).whole();
}

double share(int64_t part, int64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

void expect_near(int64_t figure, int64_t by_hand, const char* what) {
  EXPECT_NEAR(static_cast<double>(figure), static_cast<double>(by_hand), 0.01 * static_cast<double>(by_hand)) << what;
}

// D = 24, F = 56, V = 101, two layers, four heads of six, two of keys. Weights of a layer: q 24x24 = 576, k and v
// 24x12 = 288 each, o 576, gate, up and down 24x56 = 1,344 each: 5,760. Two layers and the head of 24x101 = 2,424:
// 13,944. Three rows of ten tokens: 30 tokens, 2 x 30 x 13,944 = 836,640 forward, the same for the gradients of the
// inputs, and of the weights: 2,509,920. Attention: 12 heads, 10 x 11 / 2 = 55 pairs of six: a product takes
// 2 x 12 x 55 x 6 = 7,920; two forward and five backward, two layers: 110,880.
TEST(Arithmetic, OfFullTrainingAsCountedByHand) {
  const plan::Arithmetic counted = played(tiny_config(), tiny_architecture(), step_of({{3, 10}}));
  expect_near(counted.matrix_flops, 2'509'920, "products");
  expect_near(counted.attention_flops, 110'880, "attention");
}

// The same with checkpoints and math attention, in two micro-batches of 3x10 and 1x4 tokens: the layers' products run
// twice forward, the head's once. Layers: (2 + 2) x 2 x 11,520 = 92,160 a token; head: 3 x 2 x 2,424 = 14,544; in all
// 106,704 x 34 tokens = 3,627,936. Attention computes whole squares: of 12 heads 10 x 10 x 6 x 2 = 14,400 a product, of
// four heads 4 x 4 x 6 x 2 = 768; twice two forward, four backward, two layers: 16 x 15,168 = 242,688.
TEST(Arithmetic, OfCheckpointsAndMathAttentionAsCountedByHand) {
  config::RunConfig config = tiny_config();
  config.gradient_checkpointing = true;
  config.attn_implementation = config::Attention::kMath;
  config.gradient_accumulation_steps = 2;
  const plan::Arithmetic counted = played(config, tiny_architecture(), step_of({{3, 10}, {1, 4}}));
  expect_near(counted.matrix_flops, 3'627'936, "products");
  expect_near(counted.attention_flops, 242'688, "attention");
}

// LoRA of rank 4 on q and v of another shape: D = 40, F = 91, V = 307, three layers, five heads of eight, one of keys,
// one row of 16 tokens. Frozen: q 1,600, k and v 320 each, o 1,600, gate, up and down 3,640 each: 14,760 a layer, the
// head 12,280. Forward: 3 x 14,760 + 12,280 = 56,560. Gradients of inputs: all but q, k and v of the first layer, whose
// input is the frozen embedding: 56,560 - 2,240 = 54,320. Adapters, A of q and v 40x4 = 160 each, B 4x40 = 160 and
// 4x8 = 32: 512; forward 512, of the matrices 512, of the inner products 192; of the inputs 320, not in the first
// layer: 3 x 1,216 + 2 x 320 = 4,288. Together 115,168, times 2 x 16 = 3,685,376. Attention: five heads, 136 pairs of
// eight: 10,880 a product; seven of them in each of three layers: 228,480.
TEST(Arithmetic, OfAdaptersAsCountedByHand) {
  arch::Architecture architecture = tiny_architecture();
  architecture.vocab_size = 307;
  architecture.hidden_size = 40;
  architecture.layers.assign(
      3, {.mixer = arch::Attention{.heads = 5, .key_value_heads = 1, .head_dim = 8, .rotary = arch::Rotary{.width = 8}},
          .feed_forward = {.width = 91}});
  config::RunConfig config = tiny_config();
  config.method = config::Method::kLora;
  config.lora_r = 4;
  const plan::Arithmetic counted = played(config, architecture, step_of({{1, 16}}));
  expect_near(counted.matrix_flops, 3'685'376, "products");
  expect_near(counted.attention_flops, 228'480, "attention");
}

// Six operations for each weight of a product and token (Kaplan et al. 2020, arXiv 2001.08361, section 2.1), and of
// attention's 32 layers and 32 heads, at a length of 8,192, seven products of 8,192 x 8,193 / 2 pairs of 128.
TEST(Arithmetic, OfEightBillionParameters) {
  arch::Architecture architecture = tiny_architecture();
  architecture.vocab_size = 128256;
  architecture.hidden_size = 4096;
  architecture.layers.assign(
      32,
      {.mixer =
           arch::Attention{.heads = 32, .key_value_heads = 8, .head_dim = 128, .rotary = arch::Rotary{.width = 128}},
       .feed_forward = {.width = 14336}});
  config::RunConfig config = tiny_config();
  const plan::Arithmetic by_formula =
      plan::estimate_arithmetic(arch::resolve(config, architecture), step_of({{1, 8192}})).whole();
  const int64_t weights =
      int64_t{32} * (4096 * (4096 + 1024 + 1024 + 4096) + 3 * 4096 * 14336) + int64_t{4096} * 128256;
  EXPECT_EQ(by_formula.matrix_flops, 6 * 8192 * weights);
  EXPECT_EQ(by_formula.attention_flops, int64_t{7} * 2 * 32 * 32 * (int64_t{8192} * 8193 / 2) * 128);
}

TEST(Arithmetic, FormulaAndOperatorsAgree) {
  for (const config::Method method : {config::Method::kFull, config::Method::kLora}) {
    for (const std::string autocast : {"", "bf16", "fp16"}) {
      for (const bool checkpointing : {false, true}) {
        for (const config::Attention attention : {config::Attention::kFlash, config::Attention::kMath}) {
          for (const char* targets : {"", "o_proj", "all-linear"}) {
            config::RunConfig config = tiny_config();
            config.method = method;
            config.bf16 = autocast == "bf16";
            config.fp16 = autocast == "fp16";
            config.gradient_checkpointing = checkpointing;
            config.attn_implementation = attention;
            config.max_grad_norm = 1;
            config.gradient_accumulation_steps = 3;
            if (*targets != 0) config.target_modules = {targets};
            arch::Architecture architecture = tiny_architecture();
            architecture.tie_word_embeddings = *targets == 'o';
            for (arch::LayerSpec& layer : architecture.layers) {
              layer.attention().input_bias = architecture.tie_word_embeddings;
              if (architecture.tie_word_embeddings) layer.attention().query_key_norm = arch::QueryKeyNorm::kEachHead;
              if (*targets == 'a') {
                layer.attention().query_key_norm = arch::QueryKeyNorm::kAllHeads;
                layer.norms = arch::NormPlacement::kAfter;
              }
            }
            // Played with two micro-batches; the third is added.
            const plan::StepArithmetic counted = played_parts(config, architecture, step_of({{3, 33}, {2, 40}}));
            const plan::StepArithmetic formula =
                plan::estimate_arithmetic(arch::resolve(config, architecture), step_of({{3, 33}, {2, 40}, {2, 40}}));
            const std::string name = std::string(method == config::Method::kFull ? "full" : "lora ") + targets + " " +
                                     autocast + (checkpointing ? " checkpointing" : "") +
                                     (attention == config::Attention::kMath ? " math" : " flash");
            for (const memory::Phase phase : plan::StepArithmetic::kPhases) {
              EXPECT_EQ(formula.of(phase).matrix_flops, counted.of(phase).matrix_flops) << name << phase_name(phase);
              EXPECT_EQ(formula.of(phase).attention_flops, counted.of(phase).attention_flops)
                  << name << phase_name(phase);
            }
            EXPECT_EQ(counted.update.matrix_flops, 0);
            EXPECT_NEAR(share(formula.whole().bytes_moved, counted.whole().bytes_moved), 1, 0.35) << name;
            EXPECT_NEAR(share(formula.update.bytes_moved, counted.update.bytes_moved), 1, 0.2) << name;
          }
        }
      }
    }
  }
}

// Of a step only the update depends on the optimizer: what it moves more than SGD's, to the byte.
TEST(Arithmetic, OfEachOptimizersUpdateIsCounted) {
  struct Setting {
    config::Method method;
    DType dtype;
  };
  for (const auto& [method, dtype] :
       {Setting{config::Method::kFull, DType::kF32}, Setting{config::Method::kFull, DType::kBF16},
        Setting{config::Method::kLora, DType::kF32}}) {
    config::RunConfig config = tiny_config();
    config.method = method;
    config.dtype = dtype;
    const schedule::StepShape step = step_of({{3, 10}});
    const auto moved = [&](config::Optimizer optimizer) {
      config.optim = optimizer;
      return std::pair(plan::estimate_arithmetic(arch::resolve(config, tiny_architecture()), step).whole().bytes_moved,
                       played(config, tiny_architecture(), step).bytes_moved);
    };
    const auto [least, least_played] = moved(config::Optimizer::kSgd);
    for (const auto optimizer :
         {config::Optimizer::kAdamW, config::Optimizer::kAdamW8bit, config::Optimizer::kAdamWBf16,
          config::Optimizer::kAdafactor, config::Optimizer::kLion}) {
      const auto [formula, counted] = moved(optimizer);
      EXPECT_GT(formula, least);
      EXPECT_EQ(formula - least, counted - least_played) << static_cast<int>(optimizer);
      if (!config::row_of(optimizer).is_adamw || method == config::Method::kLora || dtype != DType::kBF16) continue;
      for (const auto masters : {config::MasterWeights::kFp32, config::MasterWeights::kStochastic}) {
        config.master_weights = masters;
        const auto [with_masters, counted_with] = moved(optimizer);
        EXPECT_EQ(with_masters - least, counted_with - least_played) << static_cast<int>(optimizer);
      }
      config.master_weights = config::MasterWeights::kNone;
    }
  }
}

// What is played is what is computed: the same operators on the real CPU. No row's last token counts, so the head
// multiplies 27 of the 30: 6 x (30 x 11,520 + 27 x 2,424) = 2,466,288.
TEST(Arithmetic, OfTheRealStepIsThatOfTheDryRun) {
  const config::RunConfig config = tiny_config();
  const plan::Arithmetic dry = played(config, tiny_architecture(), {schedule::whole_batch(3, 10)});
  auto trainer = train::testing::tiny_trainer(config);
  const data::Dataset dataset = train::testing::random_dataset({10, 10, 10}, tiny_architecture().vocab_size, 3);
  const data::Batch batch = data::make_batch(dataset, std::vector<int64_t>{0, 1, 2}, 0);
  trainer->step(std::span(&batch, 1), 1e-3);
  const ArithmeticCount count(at::kCPU);
  trainer->step(std::span(&batch, 1), 1e-3);
  const plan::Arithmetic real = count.sum();
  EXPECT_EQ(real.matrix_flops, 2'466'288);
  EXPECT_EQ(real.matrix_flops, dry.matrix_flops);
  EXPECT_EQ(real.attention_flops, dry.attention_flops);
  EXPECT_NEAR(static_cast<double>(real.bytes_moved), static_cast<double>(dry.bytes_moved),
              0.01 * static_cast<double>(dry.bytes_moved));
}

// LibTorch logs what a callback throws and goes on: the sum must not.
TEST(Arithmetic, OfWhatCannotBeCountedIsNoSum) {
  const at::Tensor without_type = at::detail::make_tensor<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                                           caffe2::TypeMeta(), c10::Device(c10::kCPU));
  without_type.unsafeGetTensorImpl()->set_sizes_contiguous({3});
  {
    const ArithmeticCount count(at::kCPU);
    { RECORD_USER_SCOPE_WITH_INPUTS("work", c10::ArrayRef<const c10::IValue>({without_type})); }
    at::mm(at::ones({3, 3}), at::ones({3, 3}));
    EXPECT_THROW(count.sum(), c10::Error);
  }
  const ArithmeticCount count(at::kCPU);
  at::mm(at::ones({3, 3}), at::ones({3, 3}));
  EXPECT_EQ(count.sum().matrix_flops, 2 * 3 * 3 * 3);
}

TEST(Arithmetic, OfRoundedWeightsAgrees) {
  for (const config::Method method : {config::Method::kFull, config::Method::kLora}) {
    for (const bool autocast : {false, true}) {
      for (const bool checkpointing : {false, true}) {
        config::RunConfig config = tiny_config();
        config.method = method;
        config.bf16 = autocast;
        config.gradient_checkpointing = checkpointing;
        config.qat = config::Qat::kInt8;
        if (autocast) config.qat_activations = config::QatActivations::kInt8;
        const schedule::StepShape step = step_of({{3, 33}, {2, 40}});
        const plan::Arithmetic counted = played(config, tiny_architecture(), step);
        const plan::Arithmetic formula =
            plan::estimate_arithmetic(arch::resolve(config, tiny_architecture()), step).whole();
        EXPECT_EQ(formula.matrix_flops, counted.matrix_flops);
        EXPECT_NEAR(static_cast<double>(formula.bytes_moved) / static_cast<double>(counted.bytes_moved), 1, 0.35)
            << static_cast<int>(method) << autocast << checkpointing;
      }
    }
  }
}

TEST(Arithmetic, WhatLeavesInt64IsRefused) {
  arch::Architecture architecture = tiny_architecture();
  architecture.hidden_size = int64_t{1} << 31;
  EXPECT_THROW(plan::estimate_arithmetic(arch::resolve(tiny_config(), architecture), step_of({{1 << 20, 1 << 20}})),
               Error);
}

}  // namespace
}  // namespace fathom::play
