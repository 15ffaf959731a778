// The covering design, and the run that each of its rows describes.
#include "tests/plan/memory_matrix.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <set>
#include <string_view>

#include "base/rounding.h"
#include "base/split_mix.h"
#include "config/checks.h"

namespace fathom::plan::testing {
namespace {

constexpr uint64_t kSeed = 20260501;
constexpr size_t kRuns = 240;
constexpr size_t kCandidates = 60;  // of which the one that covers most new pairs is taken

enum AxisIndex : size_t {
  kMethod,
  kPrecision,
  kCheckpointing,
  kAttention,
  kFamily,
  kHeads,
  kTied,
  kLayers,
  kRows,
  kLength,
  kAccumulation,
  kEvaluation,
  kThreads,
  kClipping,
  kOptimizer,
  kLossChunk,
  kPacking,
  kWindow,
  kMasters,
  kBase,
  kQat,
  kSaved,
};

using Levels = std::vector<size_t>;

int64_t number_of(const Levels& levels, AxisIndex axis) { return std::stoll(matrix_axes()[axis].levels[levels[axis]]); }
bool is_on(const Levels& levels, AxisIndex axis) { return levels[axis] == 1; }

// As T5 1.0: no gate, one matrix for embedding and head with a scale; as FLAN-T5: gated, with dropout of its own.
constexpr size_t kT5 = 5, kFlanT5 = 6;
constexpr size_t kWithExperts = 7;
constexpr size_t kGemma3 = 8, kPhi3 = 9, kGranite = 10;
bool encodes(const Levels& levels) { return levels[kFamily] == kT5 || levels[kFamily] == kFlanT5; }

bool has_dropout(const Levels& levels) { return levels[kMethod] == 2 || levels[kMethod] == 4; }

// Levels that mean nothing beside the others, turned into what holds then, so that a level which a run has is one that
// its memory shows: only LoRA has a frozen base, weights in FP16 and modules trained beside it (which FP16 cannot be);
// only AdamW over weights trained in BF16 has masters; codes are not rounded again, nor is an adapter with dropout,
// which cannot be merged first; neither are experts rounded, nor is there dropout before them. An encoder and decoder
// has one kind of attention, whose heads have their own keys, no windows, no rows of documents, and is not computed in
// FP16.
Levels in_effect(Levels levels) {
  const bool full = levels[kMethod] == 0;
  constexpr size_t kFp16Autocast = 4, kFp16Base = 5;
  if (encodes(levels)) {
    for (const AxisIndex axis : {kAttention, kHeads, kPacking, kWindow}) levels[axis] = 0;
    if (levels[kPrecision] >= kFp16Autocast) levels[kPrecision] -= kFp16Autocast;
  }
  if (full && levels[kPrecision] == kFp16Base) levels[kPrecision] = kFp16Autocast;
  if (full) levels[kBase] = 0;
  if (full || levels[kPrecision] == kFp16Base) levels[kSaved] = 0;
  const bool trains_bf16 = full && (levels[kPrecision] == 2 || levels[kPrecision] == 3);
  const bool is_adamw = levels[kOptimizer] == 0 || levels[kOptimizer] >= 4;
  if (!trains_bf16 || !is_adamw) levels[kMasters] = 0;
  const bool experts = levels[kFamily] == kWithExperts;
  if (experts && levels[kMethod] == 4) levels[kMethod] = 3;
  if (levels[kBase] > 0 || has_dropout(levels) || experts) levels[kQat] = 0;
  return levels;
}

// Full training is one level of the method, but half of all runs.
Levels random_levels(SplitMix64& random) {
  Levels levels;
  for (const MatrixAxis& axis : matrix_axes()) levels.push_back(random.below(axis.levels.size()));
  if (random.below(2) == 0) levels[kMethod] = 0;
  return in_effect(levels);
}

template <typename Visit>
void each_pair(const Levels& levels, const Visit& visit) {
  for (size_t a = 0; a < levels.size(); ++a)
    for (size_t b = a + 1; b < levels.size(); ++b) visit({a, levels[a], b, levels[b]});
}

// The pairs of levels that can be in effect together and that no run has yet.
class Pairs {
 public:
  Pairs() {
    for (const MatrixPair& pair : possible_pairs()) open_.insert(pair);
  }
  size_t would_cover(const Levels& levels) const {
    size_t count = 0;
    each_pair(levels, [&](const MatrixPair& pair) { count += open_.count(pair); });
    return count;
  }
  void cover(const Levels& levels) {
    each_pair(levels, [&](const MatrixPair& pair) { open_.erase(pair); });
  }

 private:
  std::set<MatrixPair> open_;
};

void set_method(config::RunConfig& config, size_t level, bool encodes) {
  if (level == 0) return;
  config.method = config::Method::kLora;
  constexpr std::array<int64_t, 6> kRanks = {0, 1, 8, 4, 5, 2};
  config.lora_r = kRanks[level];
  if (level == 2 || level == 4) config.lora_dropout = 0.1;
  if (level == 3 || level == 4) config.target_modules = {"all-linear"};
  if (level == 5) config.target_modules = {encodes ? "o" : "o_proj", encodes ? "wo" : "down_proj"};
  config.use_rslora = level % 2 == 0;
}

// Beside the adapters: embedding and head, or every norm.
void set_saved(config::RunConfig& config, size_t level, bool encodes) {
  if (level == 1) config.modules_to_save = {encodes ? "shared" : "embed_tokens", "lm_head"};
  if (level == 2) config.modules_to_save = {"norm"};
  if (level == 2 && encodes) config.modules_to_save = {"layer_norm", "final_layer_norm"};
}

void set_base(config::RunConfig& config, size_t level) {
  config.load_in_8bit = level == 1;
  config.load_in_fp8 = level == 2;
  config.load_in_4bit = level == 3 || level == 4;
  config.bnb_4bit_use_double_quant = level == 4;
}

constexpr size_t kInt4Qat = 2;

void set_qat(config::RunConfig& config, size_t level) {
  if (level == 0) return;
  config.qat = level >= kInt4Qat ? config::Qat::kInt4 : config::Qat::kInt8;
  if (level > kInt4Qat) config.qat_activations = config::QatActivations::kInt8;
}

void set_precision(config::RunConfig& config, size_t level) {
  constexpr std::array kStored = {DType::kF32, DType::kF32, DType::kBF16, DType::kBF16, DType::kF32, DType::kF16};
  config.dtype = kStored[level];
  config.bf16 = level == 1 || level == 3;
  config.fp16 = level >= 4;
}

void set_masters(config::RunConfig& config, size_t level) {
  constexpr std::array kMasterWeights = {config::MasterWeights::kNone, config::MasterWeights::kFp32,
                                         config::MasterWeights::kStochastic};
  config.master_weights = kMasterWeights[level];
}

config::RunConfig config_of(const Levels& levels) {
  config::RunConfig config;
  config.random_init = true;
  config.device = config::Device::kCpu;
  set_method(config, levels[kMethod], encodes(levels));
  set_base(config, levels[kBase]);
  set_qat(config, levels[kQat]);
  set_saved(config, levels[kSaved], encodes(levels));
  set_precision(config, levels[kPrecision]);
  config.gradient_checkpointing = is_on(levels, kCheckpointing);
  config.attn_implementation = is_on(levels, kAttention) ? config::Attention::kMath : config::Attention::kFlash;
  config.num_threads = number_of(levels, kThreads);
  config.per_device_train_batch_size = number_of(levels, kRows);
  config.max_length = number_of(levels, kLength);
  config.gradient_accumulation_steps = number_of(levels, kAccumulation);
  config.max_grad_norm = is_on(levels, kClipping) ? 1 : 0;
  constexpr std::array kOptimizers = {config::Optimizer::kAdamW,     config::Optimizer::kSgd,
                                      config::Optimizer::kAdafactor, config::Optimizer::kLion,
                                      config::Optimizer::kAdamW8bit, config::Optimizer::kAdamWBf16};
  config.optim = kOptimizers[levels[kOptimizer]];
  set_masters(config, levels[kMasters]);
  config.loss_chunk_size = number_of(levels, kLossChunk);
  config.packing = is_on(levels, kPacking);
  if (levels[kEvaluation] > 0) config.eval_strategy = config::Cadence::kEpoch;
  config.eval_on_start = levels[kEvaluation] == 2;
  config.per_device_eval_batch_size = config.per_device_train_batch_size + (levels[kEvaluation] == 2 ? 2 : 0);
  return config;
}

int64_t odd_between(SplitMix64& random, int64_t low, int64_t high) {
  return (low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)))) | 1;
}

void set_family(arch::Architecture& architecture, arch::LayerSpec& layer, size_t level) {
  constexpr std::array<const char*, 11> kFamilies = {"LlamaForCausalLM",           "LlamaForCausalLM",
                                                     "Qwen2ForCausalLM",           "Qwen3ForCausalLM",
                                                     "Olmo2ForCausalLM",           "T5ForConditionalGeneration",
                                                     "T5ForConditionalGeneration", "Qwen3MoeForCausalLM",
                                                     "Gemma3ForCausalLM",          "Phi3ForCausalLM",
                                                     "GraniteForCausalLM"};
  architecture.family = kFamilies[level];
  layer.attention.input_bias = level == 1 || level == 2;
  layer.attention.output_bias = layer.feed_forward.bias = level == 1;
  if (level == 3 || level == kWithExperts || level == kGemma3)
    layer.attention.query_key_norm = arch::QueryKeyNorm::kEachHead;
  if (level == 4) layer.attention.query_key_norm = arch::QueryKeyNorm::kAllHeads;
  if (level == 4) layer.norms = arch::NormPlacement::kAfter;
  if (level == kGemma3) {
    layer.norms = arch::NormPlacement::kBoth;
    layer.feed_forward.activation = Activation::kGelu;
    architecture.norm_offset = 1;
    architecture.embedding_scale = 6;
  }
  layer.attention.fused = layer.feed_forward.fused = level == kPhi3;
  if (level == kGranite) {
    layer.added_scale = 0.25;
    architecture.embedding_scale = 12;
    architecture.head_scale = 0.125;
  }
  if (level != kWithExperts) return;
  layer.feed_forward.experts = arch::Experts{.count = 5, .per_token = 2, .normalised = true};
  architecture.router_aux_loss_coef = 0.01;
}

// As Mistral, or as Qwen2 has it: from some layer on.
void set_window(std::vector<arch::LayerSpec>& layers, int64_t window, SplitMix64& random) {
  size_t first = 0;
  if (window > 0 && random.below(2) != 0) first = static_cast<size_t>(random.below(layers.size()));
  for (; first < layers.size(); ++first) layers[first].attention.window = window;
}

// All numbers of each head are turned, but half of Phi-3's, and none in every second layer as SmolLM3 has some; Gemma
// turns every second layer otherwise, and scales queries.
void set_positions(std::vector<arch::LayerSpec>& layers, size_t level) {
  for (size_t number = 0; number < layers.size(); ++number) {
    arch::Attention& attention = layers[number].attention;
    const bool second = number % 2 == 1;
    attention.rotary = arch::Rotary{.width = attention.head_dim};
    if (level == kPhi3) attention.rotary->width = attention.head_dim / 4 * 2;
    if (level == kGemma3) attention.rotary->query_scale = 0.5;
    if (level == kGemma3 && second) attention.rotary->theta = 500;
    if (level == kGranite && second) attention.rotary.reset();
  }
}

// Rows of whole groups, as INT4 needs them.
void fit_groups(arch::Architecture& architecture, arch::LayerSpec& layer) {
  constexpr int64_t kGroup = 32;
  layer.attention.head_dim = kGroup;
  architecture.hidden_size = round_up(architecture.hidden_size, kGroup);
  layer.feed_forward.width = round_up(layer.feed_forward.width, kGroup);
}

// The decoder's layers behind those of an encoder that may have one less, of heads whose sum need not be the width.
void set_encoder(arch::Architecture& architecture, arch::LayerSpec layer, const Levels& levels, SplitMix64& random) {
  const int64_t decoder_layers = number_of(levels, kLayers);
  const int64_t encoder_layers = std::max<int64_t>(1, decoder_layers - static_cast<int64_t>(random.below(2)));
  architecture.family = "T5ForConditionalGeneration";
  architecture.encoder = arch::Encoder{encoder_layers, 0};
  architecture.relative = arch::RelativePositions{32, 128};
  layer.naming = arch::Naming::kT5;
  layer.attention.scaled = false;
  layer.feed_forward.gated = levels[kFamily] == kFlanT5;
  layer.feed_forward.activation = layer.feed_forward.gated ? Activation::kGelu : Activation::kRelu;
  if (levels[kFamily] == kFlanT5) architecture.dropout = 0.1;
  if (levels[kFamily] == kT5) architecture.head_scale = 0.125;
  architecture.layers.assign(static_cast<size_t>(encoder_layers), layer);
  layer.cross = true;
  architecture.layers.insert(architecture.layers.end(), static_cast<size_t>(decoder_layers), layer);
}

arch::Architecture architecture_of(const Levels& levels, SplitMix64& random) {
  constexpr std::array<int64_t, 5> kHeadDims = {6, 8, 10, 16, 20};  // even, as rotary positions need
  arch::Architecture architecture;
  arch::LayerSpec layer;
  arch::Attention& attention = layer.attention;
  if (!encodes(levels)) set_family(architecture, layer, levels[kFamily]);
  attention.head_dim = kHeadDims[random.below(kHeadDims.size())];
  const auto groups = static_cast<int64_t>(2 + random.below(2)), in_group = static_cast<int64_t>(2 + random.below(2));
  attention.heads = groups * in_group;
  const std::array<int64_t, 3> key_value_heads = {attention.heads, groups, 1};
  attention.key_value_heads = key_value_heads[levels[kHeads]];
  architecture.hidden_size = attention.queries();
  if (random.below(4) == 0) architecture.hidden_size = odd_between(random, 24, 150);  // not heads x head_dim
  layer.feed_forward.width = odd_between(random, 2 * architecture.hidden_size, 4 * architecture.hidden_size);
  const auto vocabulary = int64_t{100} << random.below(6);
  architecture.vocab_size = odd_between(random, vocabulary, 2 * vocabulary);
  if (levels[kQat] >= kInt4Qat) fit_groups(architecture, layer);
  architecture.layers.assign(static_cast<size_t>(number_of(levels, kLayers)), layer);
  architecture.tie_word_embeddings = is_on(levels, kTied);
  if (encodes(levels)) {
    set_encoder(architecture, layer, levels, random);
    return architecture;
  }
  set_positions(architecture.layers, levels[kFamily]);
  set_window(architecture.layers, number_of(levels, kWindow), random);
  return architecture;
}

int64_t between(SplitMix64& random, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random.below(static_cast<uint64_t>(most - least + 1)));
}

// At most so many rows, or documents of one row, of at most so many tokens each.
struct Limits {
  bool packing, sources;
  int64_t rows, length;
};

// The longest reaches the limit, the others are as short as it happens.
std::vector<int64_t> mixed_lengths(int64_t documents, int64_t longest, SplitMix64& random) {
  std::vector<int64_t> lengths;
  while (static_cast<int64_t>(lengths.size()) < documents) lengths.push_back(between(random, 1, longest));
  lengths[random.below(lengths.size())] = longest;
  return lengths;
}

schedule::BatchShape packed(std::vector<int64_t> lengths) {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  return {1, tokens, tokens - static_cast<int64_t>(lengths.size()), std::move(lengths)};
}

// Sources of this length, with targets from one token to as many; every one of which counts but for padding.
schedule::BatchShape pairs(int64_t rows, int64_t source_length, SplitMix64& random) {
  const int64_t length = between(random, 1, source_length);
  return {rows, length, between(random, rows, rows * length), {}, source_length};
}

schedule::BatchShape ragged(const Limits& limits, SplitMix64& random) {
  const int64_t rows = between(random, 1, limits.rows), length = between(random, 2, limits.length);
  if (limits.sources) return pairs(rows, length, random);
  schedule::BatchShape batch = {rows, length, rows * length};
  if (limits.packing) batch = packed(mixed_lengths(rows, length, random));
  batch.targets = between(random, 0, batch.targets);
  return batch;
}

// All tokens count (where nothing is packed), all that have a next one, or a part of them.
schedule::BatchShape largest_of(const Limits& limits, SplitMix64& random) {
  if (limits.sources) return pairs(limits.rows, limits.length, random);
  schedule::BatchShape batch = schedule::whole_batch(limits.rows, limits.length);
  if (limits.packing) batch = packed(mixed_lengths(limits.rows, limits.length, random));
  const int64_t most = limits.packing ? batch.targets : batch.rows * batch.length;
  const std::array<int64_t, 3> targets = {most, batch.targets, between(random, 0, most - 1)};
  batch.targets = targets[random.below(targets.size())];
  return batch;
}

// Two steps, the last often shorter, as at the end of a pass; the largest batch may come anywhere.
void draw_batches(MatrixRun& run, SplitMix64& random) {
  const Limits limits = {run.config.packing, run.architecture.encoder.has_value(),
                         run.config.per_device_train_batch_size, run.config.max_length};
  const int64_t accumulation = run.config.gradient_accumulation_steps;
  const size_t steps = 2;
  for (size_t step = 0; step < steps; ++step) {
    const bool cut = step + 1 == steps && accumulation > 1 && random.below(3) == 0;
    schedule::StepShape& shape = run.steps.emplace_back();
    for (int64_t i = 0; i < (cut ? accumulation - 1 : accumulation); ++i) shape.push_back(ragged(limits, random));
  }
  schedule::StepShape& chosen = run.steps[random.below(steps)];
  chosen[random.below(chosen.size())] = largest_of(limits, random);
  run.config.max_steps = static_cast<int64_t>(steps);
  if (run.config.eval_strategy == config::Cadence::kNo) return;
  const Limits of_one = {limits.packing, limits.sources, run.config.per_device_eval_batch_size, limits.length};
  run.evaluations = {ragged(of_one, random), largest_of(of_one, random), ragged(of_one, random)};
}

std::string name_of(size_t place, const Levels& levels) {
  std::array<char, 8> number{};
  std::snprintf(number.data(), number.size(), "%03zu", place);
  std::string name = number.data();
  const auto append = [&](std::string_view before, AxisIndex axis) {
    name.append(before).append(matrix_axes()[axis].levels[levels[axis]]);
  };
  for (const AxisIndex axis : {kMethod, kPrecision, kAttention, kFamily, kHeads}) append("_", axis);
  if (is_on(levels, kCheckpointing)) name.append("_checkpointing");
  if (is_on(levels, kTied)) name.append("_tied");
  append("_", kAccumulation);
  append("x", kRows);
  append("x", kLength);
  append("_layers", kLayers);
  if (levels[kEvaluation] > 0) append("_", kEvaluation);
  if (is_on(levels, kClipping)) name.append("_clipping");
  append("_", kOptimizer);
  append("_threads", kThreads);
  append("_chunk", kLossChunk);
  if (is_on(levels, kPacking)) name.append("_packed");
  if (number_of(levels, kWindow) > 0) append("_window", kWindow);
  if (levels[kMasters] > 0) append("_masters_", kMasters);
  if (levels[kBase] > 0) append("_", kBase);
  if (levels[kQat] > 0) append("_qat_", kQat);
  if (levels[kSaved] > 0) append("_", kSaved);
  return name;
}

}  // namespace

const std::vector<MatrixAxis>& matrix_axes() {
  static const auto* axes = new std::vector<MatrixAxis>{
      {"method",
       {"full", "lora_r1", "lora_r8_dropout", "lora_r4_all_linear", "lora_r5_all_linear_dropout", "lora_r2_out"}},
      {"precision", {"fp32", "autocast", "bf16", "bf16_autocast", "fp16_autocast", "fp16_base"}},
      {"checkpointing", {"no", "yes"}},
      {"attention", {"flash", "math"}},
      {"family",
       {"llama", "llama_biased", "qwen2", "qwen3", "olmo2", "t5", "flan_t5", "qwen3_moe", "gemma3", "phi3", "granite"}},
      {"heads", {"multi", "grouped", "single"}},
      {"tied", {"no", "yes"}},
      {"layers", {"1", "2", "3"}},
      {"rows", {"1", "2", "3", "5"}},
      {"length", {"5", "33", "64", "101", "199", "260"}},
      {"accumulation", {"1", "2", "4"}},
      {"evaluation", {"none", "evaluation", "evaluation_on_start"}},
      {"threads", {"1", "2"}},
      {"clipping", {"no", "yes"}},
      {"optimizer", {"adamw", "sgd", "adafactor", "lion", "adamw_8bit", "adamw_bf16"}},
      {"loss_chunk_size", {"0", "7", "1024"}},
      {"packing", {"no", "yes"}},
      {"window", {"0", "17", "90"}},
      {"masters", {"none", "fp32", "stochastic"}},
      {"base", {"stored", "int8", "fp8", "nf4", "nf4_double"}},
      {"qat", {"none", "int8", "int4", "int4_activations"}},
      {"modules_to_save", {"none", "vocabulary", "norms"}},
  };
  return *axes;
}

// A pair that ten thousand random rows of levels never show is one that in_effect forbids.
const std::set<MatrixPair>& possible_pairs() {
  static const auto* pairs = [] {
    auto* seen = new std::set<MatrixPair>;
    SplitMix64 random(kSeed);
    for (int i = 0; i < 10'000; ++i)
      each_pair(random_levels(random), [&](const MatrixPair& pair) { seen->insert(pair); });
    return seen;
  }();
  return *pairs;
}

std::vector<Levels> matrix_levels() {
  SplitMix64 random(kSeed);
  Pairs open;
  std::vector<Levels> design;
  std::set<Levels> known;
  while (design.size() < kRuns) {
    Levels best = random_levels(random);
    for (size_t i = 1; i < kCandidates; ++i) {
      Levels candidate = random_levels(random);
      if (open.would_cover(candidate) > open.would_cover(best)) best = candidate;
    }
    if (!known.insert(best).second) continue;
    open.cover(best);
    design.push_back(best);
  }
  return design;
}

std::vector<MatrixRun> memory_matrix() {
  std::vector<MatrixRun> runs;
  for (const Levels& levels : matrix_levels()) {
    SplitMix64 random(kSeed + 1 + runs.size());
    MatrixRun run;
    run.name = name_of(runs.size(), levels);
    run.config = config_of(levels);
    run.architecture = architecture_of(levels, random);
    draw_batches(run, random);
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<MatrixRun> sample_of_matrix(uint64_t seed, size_t count) {
  std::vector<MatrixRun> runs = memory_matrix();
  SplitMix64 random(seed);
  while (runs.size() > count) runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(random.below(runs.size())));
  return runs;
}

}  // namespace fathom::plan::testing
