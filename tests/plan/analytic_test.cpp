// The analytic estimate against numbers worked out by hand; analytic_dry_run_test.cpp holds them against the dry run.
#include "plan/estimate/analytic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/parameter_table.h"
#include "base/error.h"
#include "tests/plan/llama_8b.h"

namespace fathom::plan::analytic_test {
namespace {

using memory::Component;
using ::testing::HasSubstr;
using testing::llama_8b;

arch::Architecture tiny() {
  arch::Architecture architecture;
  architecture.vocab_size = 10;
  architecture.hidden_size = 8;
  architecture.layers.assign(
      2, {.mixer = arch::Attention{.heads = 2, .key_value_heads = 1, .head_dim = 4, .rotary = arch::Rotary{.width = 4}},
          .feed_forward = {.width = 12}});
  return architecture;
}

Target cpu() {
  Target target;
  target.name = "CPU";
  target.threads = 2;
  target.attention_kernel = "flash attention";
  return target;
}

// Every token counts.
Workload steps_of(std::vector<schedule::StepShape> steps) {
  Workload workload;
  workload.steps = std::move(steps);
  for (schedule::StepShape& step : workload.steps) {
    for (schedule::BatchShape& batch : step) {
      batch.targets = batch.rows * batch.length;
      workload.capacity_tokens = std::max(workload.capacity_tokens, batch.rows * batch.length);
    }
  }
  return workload;
}

// V 10, D 8, F 12, L 2, H 2, K 1, E 4: embedding and head 80 each, a layer 64 + 32 + 32 + 64 + 3 * 96 + 2 * 8 = 496,
// last norm 8: 1,160 parameters. 6 tokens.
TEST(Analytic, OfATinyNetworkAsWorkedOutByHand) {
  const Analytic analytic = estimate_analytic(arch::resolve({}, tiny()), cpu(), steps_of({{{2, 3}}}));
  // 64 rotary positions are the fewest: two tables of 64 x 2.
  EXPECT_EQ(analytic.at_peak[Component::kWeights], 1160 * 4 + 2 * 64 * 2 * 4);
  EXPECT_EQ(analytic.at_peak[Component::kOptimizerStates], 2 * 1160 * 4);
  // Ids, targets and the rows that count, of two batches.
  EXPECT_EQ(analytic.at_peak[Component::kFunctionality], 3 * 2 * 6 * 8);
  EXPECT_EQ(analytic.at_peak[Component::kKernels], 0);
  EXPECT_EQ(analytic.maximum[Component::kGradients], 1160 * 4);
  // A layer keeps the stream twice, queries and the attention's output (4 tensors of 6 x 8: 192 bytes each), keys and
  // values (2 x 96), logsumexp (2 x 2 x 3 x 4), 1/rms (2 x 24), gate and up (2 x 288). Norms' outputs and the product
  // of gate and up are made again.
  const int64_t layer = 4 * 192 + 2 * 96 + 48 + 48 + 2 * 288;
  const int64_t last_norm = 2 * 192 + 24;
  constexpr int64_t kLoss = 4;
  EXPECT_EQ(analytic.maximum[Component::kActivations], 2 * layer + last_norm + kLoss);
  // The fullest instant is in the lower layer's attention: only q, k, v, the first norm and the embedding have no
  // gradients yet. Left of the layer are its stream, 1/rms, queries, keys, values, output and logsumexp; the gradients
  // of the stream, of the output, of queries, and of keys and values for each of both query heads are there.
  EXPECT_EQ(analytic.instant, "backward pass of attention in layer 1");
  EXPECT_EQ(analytic.at_peak[Component::kGradients], 1160 * 4 - (64 + 32 + 32 + 8 + 80) * 4);
  EXPECT_EQ(analytic.at_peak[Component::kActivations], 3 * 192 + 24 + 2 * 96 + 48 + kLoss);
  EXPECT_EQ(analytic.at_peak[Component::kTemporaryBuffers], int64_t{5} * 192 + kLoss);
  EXPECT_EQ(analytic.peak, 5664 + 9280 + 288 + 3776 + 844 + 964);
}

// A run reserves positions before its first step: the fullest batch has the tables of the longest one beside it.
TEST(Analytic, RotaryTablesReachTheLongestSequenceOfTheRun) {
  const Analytic analytic = estimate_analytic(arch::resolve({}, tiny()), cpu(), steps_of({{{8, 50}}, {{1, 200}}}));
  EXPECT_EQ(analytic.at_peak[Component::kWeights], 1160 * 4 + 2 * 256 * 2 * 4);
  EXPECT_EQ(analytic.maximum[Component::kWeights], analytic.at_peak[Component::kWeights]);
}

TEST(Analytic, TermsAddUpToThePeakAndSayTheirNumbers) {
  const Analytic analytic = estimate_analytic(arch::resolve({}, llama_8b()), cpu(), steps_of({{{1, 1024}}}));
  int64_t sum = 0;
  for (const Analytic::Term& term : analytic.terms) sum += term.bytes;
  EXPECT_EQ(sum, analytic.peak);
  EXPECT_EQ(analytic.at_peak.total(), analytic.peak);
  EXPECT_EQ(analytic.terms.at(0).formula, "8,030,261,248 parameters × 4 bytes");
  EXPECT_EQ(analytic.terms.at(1).formula, "2 of 1,024 positions × 64 × 4 bytes");
}

TEST(Analytic, FullTrainingOf8BInEveryPrecision) {
  constexpr int64_t kParameters = 8'030'261'248, kRotary = int64_t{2} * 2048 * 64 * 4;
  const Workload workload = steps_of({{{1, 2048}}});
  const Analytic fp32 = estimate_analytic(arch::resolve({}, llama_8b()), cpu(), workload);
  EXPECT_EQ(fp32.at_peak[Component::kWeights], 4 * kParameters + kRotary);
  EXPECT_EQ(fp32.at_peak[Component::kOptimizerStates], 8 * kParameters);
  EXPECT_EQ(fp32.maximum[Component::kGradients], 4 * kParameters);

  config::RunConfig autocast;
  autocast.bf16 = true;
  const Analytic mixed = estimate_analytic(arch::resolve(autocast, llama_8b()), cpu(), workload);
  EXPECT_EQ(mixed.at_peak[Component::kWeights], 4 * kParameters + kRotary);
  // Copies of every projection and of the head, 2 bytes each: all parameters but the embedding and the norms.
  const int64_t copied = kParameters - 128256LL * 4096 - int64_t{65} * 4096;
  EXPECT_EQ(mixed.maximum[Component::kFunctionality], 2 * copied + int64_t{3} * 2 * 2048 * 8);

  config::RunConfig pure;
  pure.dtype = DType::kBF16;
  const Analytic bf16 = estimate_analytic(arch::resolve(pure, llama_8b()), cpu(), workload);
  EXPECT_EQ(bf16.at_peak[Component::kWeights], 2 * kParameters + kRotary);
  EXPECT_EQ(bf16.at_peak[Component::kOptimizerStates], 4 * kParameters);
  EXPECT_EQ(bf16.maximum[Component::kGradients], 2 * kParameters);
  EXPECT_EQ(bf16.at_peak[Component::kFunctionality], 3 * 2 * 2048 * 8);
}

TEST(Analytic, LoraTrainsOnlyItsAdapters) {
  config::RunConfig run;
  run.method = config::Method::kLora;
  run.lora_r = 16;
  // q_proj is 4096 x 4096 and v_proj 1024 x 4096: 16 x (8192 + 5120) in each of 32 layers.
  constexpr int64_t kAdapters = int64_t{32} * 16 * (8192 + 5120);
  EXPECT_EQ(arch::resolve(run, llama_8b()).parameters.adapter_count(), kAdapters);
  const Analytic analytic = estimate_analytic(arch::resolve(run, llama_8b()), cpu(), steps_of({{{1, 2048}}}));
  // The base stays as the checkpoint stores it.
  EXPECT_EQ(analytic.at_peak[Component::kWeights], 2 * 8'030'261'248 + 4 * kAdapters + int64_t{2} * 2048 * 64 * 4);
  EXPECT_EQ(analytic.at_peak[Component::kOptimizerStates], 8 * kAdapters);
  EXPECT_EQ(analytic.maximum[Component::kGradients], 4 * kAdapters);
  EXPECT_EQ(arch::resolve({}, llama_8b()).parameters.adapter_count(), 0) << "full training has none";
}

TEST(Analytic, ATiedHeadIsOneTensor) {
  arch::Architecture architecture = tiny();
  architecture.tie_word_embeddings = true;
  const Analytic analytic = estimate_analytic(arch::resolve({}, architecture), cpu(), steps_of({{{2, 3}}}));
  EXPECT_EQ(analytic.at_peak[Component::kWeights], 1080 * 4 + 1024);
  EXPECT_EQ(analytic.maximum[Component::kGradients], 1080 * 4);
}

TEST(Analytic, CheckpointingKeepsOneLayerAndTheInputsOfTheOthers) {
  config::RunConfig run;
  const Workload workload = steps_of({{{1, 8192}}});
  const int64_t plain =
      estimate_analytic(arch::resolve(run, llama_8b()), cpu(), workload).maximum[Component::kActivations];
  run.gradient_checkpointing = true;
  const int64_t saving =
      estimate_analytic(arch::resolve(run, llama_8b()), cpu(), workload).maximum[Component::kActivations];
  constexpr int64_t kStream = 8192LL * 4096 * 4;
  // Of the layer that is computed again: the stream twice, queries, the attention's output, keys and values, gate and
  // up; logsumexp, 1/rms.
  constexpr int64_t kLayer = 8192LL * 4 * (4 * 4096 + 2 * 1024 + 2 * 14336 + 32 + 2);
  EXPECT_EQ(saving, 32 * kStream + kLayer + 4) << "inputs of 31 layers, one layer, its output and the loss";
  EXPECT_GT(plain, 5 * saving / 2);
}

TEST(Analytic, MathAttentionKeepsTheSquareOfTheLength) {
  config::RunConfig run;
  Target math = cpu();
  math.attention_kernel = "math attention";
  const auto activations = [&](int64_t length, const Target& target) {
    return estimate_analytic(arch::resolve(run, tiny()), target, steps_of({{{1, length}}}))
        .maximum[Component::kActivations];
  };
  EXPECT_EQ(activations(2048, cpu()), 2 * activations(1024, cpu()) - 4) << "flash is linear";
  // Doubling the length doubles everything but the probabilities, which grow fourfold: 2 layers x 2 heads x 4 bytes.
  EXPECT_EQ(activations(2048, math) - 2 * activations(1024, math), (2048LL * 2048 - 2 * 1024LL * 1024) * 2 * 2 * 4 - 4);
}

TEST(Analytic, AccumulationKeepsGradientsThroughTheForwardPass) {
  const Analytic once = estimate_analytic(arch::resolve({}, tiny()), cpu(), steps_of({{{4, 64}}}));
  const Analytic twice = estimate_analytic(arch::resolve({}, tiny()), cpu(), steps_of({{{4, 64}, {4, 64}}}));
  EXPECT_GT(twice.peak, once.peak);
  EXPECT_EQ(twice.at_peak[Component::kGradients], 1160 * 4);
}

TEST(Analytic, CountsLibraryWorkspacesOfAGpu) {
  Target gpu = cpu();
  gpu.device = config::Device::kCuda;
  gpu.name = "H100";
  gpu.compute_capability = "9.0";
  gpu.attention_kernel = "memory-efficient attention";
  EXPECT_EQ(estimate_analytic(arch::resolve({}, tiny()), gpu, steps_of({{{2, 3}}})).at_peak[Component::kKernels],
            2 * 33554432);
  gpu.compute_capability = "8.0";
  EXPECT_EQ(estimate_analytic(arch::resolve({}, tiny()), gpu, steps_of({{{2, 3}}})).at_peak[Component::kKernels],
            2 * 8519680);
}

TEST(Analytic, RefusesSizesBeyondCounting) {
  try {
    estimate_analytic(arch::resolve({}, llama_8b()), cpu(), steps_of({{{int64_t{1} << 40, int64_t{1} << 20}}}));
    FAIL() << "2^60 tokens were counted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("larger than 2^63"));
    EXPECT_THAT(error.what(), HasSubstr("pad_to_multiple_of"));
  }
}

}  // namespace
}  // namespace fathom::plan::analytic_test
