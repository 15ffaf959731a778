// The analytic estimate of an encoder and decoder against numbers worked out by hand.
#include <gtest/gtest.h>

#include "plan/estimate/analytic.h"

namespace fathom::plan::analytic_encoder_test {
namespace {

using memory::Component;

// As T5 1.0. V 10, D 8, F 12, H 2, E 4, a layer in each stack: embedding and head 80 each, attention 4 x 64, three of
// them, up and down 96 each, five norms of layers and two last ones 8 each, biases by 32 buckets 64 each.
arch::Architecture tiny() {
  arch::Architecture architecture;
  architecture.family = "T5ForConditionalGeneration";
  architecture.vocab_size = 10;
  architecture.hidden_size = 8;
  architecture.encoder = arch::Encoder{1, 0};
  architecture.relative = arch::RelativePositions{32, 128};
  arch::LayerSpec layer;
  layer.naming = arch::Naming::kT5;
  layer.attention().heads = layer.attention().key_value_heads = 2;
  layer.attention().head_dim = 4;
  layer.attention().scaled = false;
  layer.feed_forward.width = 12;
  layer.feed_forward.gated = false;
  layer.feed_forward.activation = Activation::kRelu;
  architecture.layers.assign(2, layer);
  architecture.layers.back().cross = true;
  return architecture;
}

constexpr int64_t kParameters = 2 * 80 + 3 * 256 + 4 * 96 + 7 * 8 + 2 * 64;
// Buckets of both stacks, the ring's ids, targets and rows that count, its sources and their padding.
constexpr int64_t kFunctionality = 2 * 11 * 8 + 2 * 6 * 24 + 2 * 12 * 9;
constexpr int64_t kSource = 12 * 8 * 4, kTarget = 6 * 8 * 4;  // a tensor of 12 source tokens, of 6 target tokens
constexpr int64_t kBiases = 11 * 2 * 4;                       // of the encoder, by distance

schedule::BatchShape batch() { return {2, 3, 6, {}, 6}; }

Workload workload() {
  Workload workload;
  workload.capacity_tokens = 6;
  workload.capacity_source_tokens = 12;
  return workload;
}

Target cpu() {
  Target target;
  target.threads = 2;
  target.attention_kernel = "flash attention";
  return target;
}

TEST(AnalyticOfAnEncoder, StepAsWorkedOutByHand) {
  Workload steps = workload();
  steps.steps = {{batch()}};
  const Analytic analytic = estimate_analytic(arch::resolve({}, tiny()), cpu(), steps);
  EXPECT_EQ(analytic.at_peak[Component::kWeights], kParameters * 4);
  EXPECT_EQ(analytic.at_peak[Component::kFunctionality], kFunctionality);
  EXPECT_EQ(analytic.maximum[Component::kGradients], kParameters * 4);
  // The encoder's attention goes backward last: its q, k, v, norm and biases, and the embedding, have no gradients yet.
  EXPECT_EQ(analytic.instant, "backward pass of attention in layer 1");
  EXPECT_EQ(analytic.at_peak[Component::kGradients], (kParameters - 3 * 64 - 8 - 64 - 80) * 4);
  // The stream and 1/rms, queries, keys and values; the loss, ids of 18 tokens; the embedding of targets lies behind
  // that of sources.
  EXPECT_EQ(analytic.at_peak[Component::kActivations], kSource + 12 * 4 + 3 * kSource + kBiases + 4 + 18 * 8 + kTarget);
  // Gradients of the stream, of output, queries, values and keys, of targets, of biases in each of 2 rows; two tensors
  // of 2 x 2 x 6 x 6 scores.
  EXPECT_EQ(analytic.at_peak[Component::kTemporaryBuffers], 5 * kSource + kTarget + 2 * kBiases + 2 * 144 * 4 + 4);
}

TEST(AnalyticOfAnEncoder, EvaluationAsWorkedOutByHand) {
  Workload evaluation = workload();
  evaluation.evaluations = {batch()};
  const Analytic analytic = estimate_analytic(arch::resolve({}, tiny()), cpu(), evaluation);
  EXPECT_EQ(analytic.instant, "evaluation of attention in layer 1");
  // The stream, queries, keys and values, these copied and queries reversed besides, the output and what it is made of;
  // the embedding of targets; scores.
  EXPECT_EQ(analytic.at_peak[Component::kTemporaryBuffers], (1 + 3 + 4 + 2) * kSource + kTarget + kBiases + 144 * 4);
}

// Masks go with the graph: of the whole step, or of a layer that runs again.
TEST(AnalyticOfAnEncoder, MasksOfDropoutLastAsLongAsTheirGraph) {
  Workload steps = workload();
  steps.steps = {{batch()}};
  arch::Architecture drops = tiny();
  drops.dropout = drops.embedding_dropout = drops.inner_dropout = 0.1;
  const auto more = [&](bool checkpoints) {
    config::RunConfig run;
    run.gradient_checkpointing = checkpoints;
    return estimate_analytic(arch::resolve(run, drops), cpu(), steps).maximum[Component::kActivations] -
           estimate_analytic(arch::resolve(run, tiny()), cpu(), steps).maximum[Component::kActivations];
  };
  // Of the embedding, of what the encoder made and of what the head reads; of the branches of a layer and of F, of
  // which what is left is kept, too. The decoder's layer is the widest that runs again.
  const int64_t outside = (12 + 6 + 12 + 6) * 8, left = 12 * 4;
  const int64_t encoder = 12 * (2 * 8 + 12 + left), decoder = 6 * (3 * 8 + 12 + left);
  EXPECT_EQ(more(false), outside + encoder + decoder);
  EXPECT_EQ(more(true), outside + decoder);
}

// Of 2 rows: 5 positions of a cache, and of 6 source tokens the keys and values of each layer. The widest instant is
// the encoder's, which an evaluation has too, but for targets: these are not embedded with sources.
TEST(AnalyticOfAnEncoder, AnswersHaveACacheBesideTheirFirstPass) {
  Workload answers = workload();
  answers.schedule.answers = {{2, 1, 5, 6}};
  const Analytic analytic = estimate_analytic(arch::resolve({}, tiny()), cpu(), answers);
  EXPECT_EQ(analytic.instant, "answers, first pass of attention in layer 1");
  EXPECT_EQ(analytic.at_peak[Component::kFunctionality], kFunctionality + 2 * 8 + 12 * 9 + 2 * 2 * 5 * 8 * 4);
  EXPECT_EQ(analytic.at_peak[Component::kTemporaryBuffers], (1 + 3 + 4 + 2) * kSource + kBiases + 144 * 4);
}

// More layers than the encoder has make the cache the peak: 9 with the keys and values of 6 source tokens each, the
// ninth's not yet; cross-attention copies them in the last, and the encoder's output is there.
TEST(AnalyticOfAnEncoder, KeysAndValuesOfSourcesAddUpOverLayers) {
  arch::Architecture deep = tiny();
  for (int i = 0; i < 8; ++i) deep.layers.push_back(deep.layers.back());
  Workload answers = workload();
  answers.schedule.answers = {{2, 1, 5, 6}};
  const Analytic analytic = estimate_analytic(arch::resolve({}, deep), cpu(), answers);
  EXPECT_EQ(analytic.instant, "answers, first pass of attention in layer 10");
  EXPECT_EQ(analytic.at_peak[Component::kFunctionality], kFunctionality + 2 * 8 + 12 * 9 + 9 * 2 * 2 * 5 * 8 * 4);
  constexpr int64_t kToken = 2 * 8 * 4;  // one of each row
  // Beside 8 layers' keys and values and what the encoder made, the layer's input, the stream after attention, the bias
  // of one distance; queries, and keys and values with their copies, the output and what it is made of, scores of
  // 2 x 2 x 1 x 6 pairs.
  EXPECT_EQ(analytic.at_peak[Component::kTemporaryBuffers],
            8 * 2 * kSource + kSource + 2 * kToken + 2 * 4 + 2 * (kToken + 2 * kSource) + 2 * kToken + 24 * 4);
}

}  // namespace
}  // namespace fathom::plan::analytic_encoder_test
