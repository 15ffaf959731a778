// The covering design, and the run that each of its rows describes.
#include "tests/plan/memory_matrix.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>

#include "base/split_mix.h"
#include "tests/plan/matrix_models.h"

namespace fathom::plan::testing {
namespace {

constexpr size_t kRuns = 240, kRunsOfEach = 20;  // the latter of each of kLater
constexpr size_t kCandidates = 60;               // of which the one that covers most new pairs is taken

bool has_dropout(const Levels& levels) { return levels[kMethod] == 2 || levels[kMethod] == 4; }

// Levels that mean nothing beside the others, turned into what holds then, so that a level which a run has is one that
// its memory shows: only LoRA has a frozen base, weights in FP16 and modules trained beside it (which FP16 cannot be);
// only AdamW over weights trained in BF16 has masters; codes are not rounded again, nor is an adapter with dropout,
// which cannot be merged first; neither are experts and GPT-2 rounded, nor is there dropout before experts. Attention
// by scores is of one kind, and has no rows of documents; in an encoder and decoder, in GPT-2, and where keys are made
// of narrow rows, its heads have their own keys and no windows. An encoder and decoder is not computed in FP16.
Levels in_effect(Levels levels) {
  const bool full = levels[kMethod] == 0;
  constexpr size_t kFp16Autocast = 4, kFp16Base = 5;
  const bool gpt2 = levels[kFamily] == kGpt2;
  const bool by_scores = encodes(levels) || gpt2 || levels[kFamily] == kGemma2 || levels[kFamily] == kSeedOss;
  if (by_scores) levels[kAttention] = levels[kPacking] = 0;
  if (encodes(levels) || gpt2 || levels[kFamily] == kLatent) levels[kHeads] = levels[kWindow] = 0;
  if (encodes(levels) && levels[kPrecision] >= kFp16Autocast) levels[kPrecision] -= kFp16Autocast;
  if (full && levels[kPrecision] == kFp16Base) levels[kPrecision] = kFp16Autocast;
  if (full) levels[kBase] = 0;
  if (full || levels[kPrecision] == kFp16Base) levels[kSaved] = 0;
  const bool trains_bf16 = full && (levels[kPrecision] == 2 || levels[kPrecision] == 3);
  const bool is_adamw = levels[kOptimizer] == 0 || levels[kOptimizer] >= 4;
  if (!trains_bf16 || !is_adamw) levels[kMasters] = 0;
  const bool experts = routes(levels[kFamily]);
  if (experts && levels[kMethod] == 4) levels[kMethod] = 3;
  if (levels[kBase] > 0 || has_dropout(levels) || experts || gpt2) levels[kQat] = 0;
  return levels;
}

// Families of new parts of layers, which came after the first runs were drawn and are the last ones.
constexpr std::array kLater = {kLfm2, kQwen35, kGptOss, kGemma4, kGlmMoe, kQwen2Moe, kLatent};

// Full training is one level of the method, but half of all runs. family: one of kLater; none: another.
Levels random_levels(SplitMix64& random, std::optional<size_t> family) {
  Levels levels;
  for (const MatrixAxis& axis : matrix_axes()) {
    const bool is_family = levels.size() == kFamily;
    const size_t level = random.below(axis.levels.size() - (is_family ? kLater.size() : 0));
    levels.push_back(is_family ? family.value_or(level) : level);
  }
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

// The modules of adapters behind attention and the feed-forward part, and of those trained beside adapters.
struct ModuleNames {
  std::vector<std::string> outputs, vocabulary, norms;
  std::vector<std::string> parameters = {};  // of experts, beside the outputs
};

ModuleNames names_of(const Levels& levels) {
  if (encodes(levels)) return {{"o", "wo"}, {"shared", "lm_head"}, {"layer_norm", "final_layer_norm"}};
  if (levels[kFamily] == kGpt2) return {{"c_proj"}, {"wte", "wpe", "lm_head"}, {"ln_1", "ln_2", "ln_f"}};
  if (levels[kFamily] == kQwen35 && number_of(levels, kLayers) > 1) {
    return {{"o_proj", "out_proj", "down_proj"}, {"embed_tokens", "lm_head"}, {"norm"}};
  }
  if (levels[kFamily] == kLfm2) return {{"out_proj", "w2"}, {"embed_tokens", "lm_head"}, {"norm"}};
  if (levels[kFamily] == kGptOss) return {{"o_proj"}, {"embed_tokens", "lm_head"}, {"norm"}, {"experts.down_proj"}};
  return {{"o_proj", "down_proj"}, {"embed_tokens", "lm_head"}, {"norm"}};
}

void set_method(config::RunConfig& config, size_t level, const ModuleNames& names) {
  if (level == 0) return;
  config.method = config::Method::kLora;
  constexpr std::array<int64_t, 6> kRanks = {0, 1, 8, 4, 5, 2};
  config.lora_r = kRanks[level];
  if (level == 2 || level == 4) config.lora_dropout = 0.1;
  if (level == 3 || level == 4) config.target_modules = {"all-linear"};
  if (level == 5) config.target_modules = names.outputs;
  if (level == 5) config.target_parameters = names.parameters;
  config.use_rslora = level % 2 == 0;
}

// Beside the adapters: embedding and head, or every norm.
void set_saved(config::RunConfig& config, size_t level, const ModuleNames& names) {
  if (level == 1) config.modules_to_save = names.vocabulary;
  if (level == 2) config.modules_to_save = names.norms;
}

void set_base(config::RunConfig& config, size_t level) {
  config.load_in_8bit = level == 1;
  config.load_in_fp8 = level == 2;
  config.load_in_4bit = level == 3 || level == 4;
  config.bnb_4bit_use_double_quant = level == 4;
}

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
  const ModuleNames names = names_of(levels);
  set_method(config, levels[kMethod], names);
  set_base(config, levels[kBase]);
  set_qat(config, levels[kQat]);
  set_saved(config, levels[kSaved], names);
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

int64_t number_of(const Levels& levels, AxisIndex axis) { return std::stoll(matrix_axes()[axis].levels[levels[axis]]); }

const std::vector<MatrixAxis>& matrix_axes() {
  static const auto* axes = new std::vector<MatrixAxis>{
      {"method",
       {"full", "lora_r1", "lora_r8_dropout", "lora_r4_all_linear", "lora_r5_all_linear_dropout", "lora_r2_out"}},
      {"precision", {"fp32", "autocast", "bf16", "bf16_autocast", "fp16_autocast", "fp16_base"}},
      {"checkpointing", {"no", "yes"}},
      {"attention", {"flash", "math"}},
      {"family", {"llama",   "llama_biased", "qwen2",   "qwen3",   "olmo2",   "t5",      "flan_t5",   "qwen3_moe",
                  "gemma3",  "phi3",         "granite", "gemma2",  "cohere2", "gpt2",    "seed_oss",  "arcee",
                  "hunyuan", "lfm2",         "qwen35",  "gpt_oss", "gemma4",  "glm_moe", "qwen2_moe", "latent"}},
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
    SplitMix64 random(kMatrixSeed);
    std::vector<std::optional<size_t>> families = {std::nullopt};
    families.insert(families.end(), kLater.begin(), kLater.end());
    for (const std::optional<size_t> family : families) {
      for (int i = 0; i < 10'000; ++i) {
        each_pair(random_levels(random, family), [&](const MatrixPair& pair) { seen->insert(pair); });
      }
    }
    return seen;
  }();
  return *pairs;
}

std::vector<Levels> matrix_levels(uint64_t seed) {
  SplitMix64 random(seed);
  Pairs open;
  std::vector<Levels> design;
  std::set<Levels> known;
  while (design.size() < kRuns + kRunsOfEach * kLater.size()) {
    std::optional<size_t> family;
    if (design.size() >= kRuns) family = kLater[(design.size() - kRuns) / kRunsOfEach];
    Levels best = random_levels(random, family);
    for (size_t i = 1; i < kCandidates; ++i) {
      Levels candidate = random_levels(random, family);
      if (open.would_cover(candidate) > open.would_cover(best)) best = candidate;
    }
    if (!known.insert(best).second) continue;
    open.cover(best);
    design.push_back(best);
  }
  return design;
}

std::vector<MatrixRun> memory_matrix(uint64_t seed) {
  std::vector<MatrixRun> runs;
  for (const Levels& levels : matrix_levels(seed)) {
    SplitMix64 random(seed + 1 + runs.size());
    MatrixRun run;
    run.name = name_of(runs.size(), levels);
    run.config = config_of(levels);
    run.architecture = architecture_of(levels, random);
    draw_batches(run, random);
    runs.push_back(std::move(run));
  }
  return runs;
}

std::optional<MatrixRun> of_preferences(MatrixRun run) {
  if (run.architecture.encoder || run.config.packing) return std::nullopt;
  const auto drawn = static_cast<size_t>(run.config.max_length + run.config.per_device_train_batch_size);
  const size_t kind = drawn % (std::size(config::kLossTypes) + 1);  // the last: simpo, which has a loss of its own
  const bool against_reference = kind < std::size(config::kLossTypes);
  run.config.objective = against_reference ? config::Objective::kDpo : config::Objective::kSimpo;
  const config::LossTypeRow& loss = config::kLossTypes[against_reference ? kind : 0];
  run.config.loss_type = loss.type;
  run.config.label_smoothing = loss.smoothing == config::Smoothing::kMustBe ? 0.1 : 0;
  run.config.lora_dropout = 0;
  run.architecture.router_aux_loss_coef = run.architecture.dropout = 0;
  run.architecture.embedding_dropout = run.architecture.inner_dropout = 0;
  const auto double_rows = [&](std::vector<schedule::BatchShape>& batches) {
    for (schedule::BatchShape& batch : batches) {
      int64_t& most = run.config.per_device_eval_batch_size;  // of which large runs do not say what they evaluate
      most = std::max(most, batch.rows);
      batch.rows *= 2;
      batch.targets = std::min(2 * batch.targets, batch.rows * (batch.length - 1));
    }
  };
  for (schedule::StepShape& step : run.steps) double_rows(step);
  double_rows(run.evaluations);
  if (against_reference) {
    for (const schedule::StepShape& step : run.steps) run.reference.push_back(step.front());
  }
  run.name += "_preferences";
  return run;
}

std::vector<MatrixRun> sample_of_matrix(uint64_t seed, size_t count, size_t among) {
  std::vector<MatrixRun> runs = memory_matrix();
  if (runs.size() > among) runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(among), runs.end());
  SplitMix64 random(seed);
  while (runs.size() > count) runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(random.below(runs.size())));
  return runs;
}

}  // namespace fathom::plan::testing
