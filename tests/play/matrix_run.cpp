// The two sides of a run of the matrix.
#include "tests/play/matrix_run.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/json_value.h"
#include "base/split_mix.h"
#include "checkpoint/checkpoint.h"
#include "train/random_state.h"
#include "train/trainer.h"

namespace fathom::play::testing {
namespace {

namespace fs = std::filesystem;
using memory::Component;

class Threads {
 public:
  explicit Threads(int64_t count) : before_(at::get_num_threads()) { at::set_num_threads(static_cast<int>(count)); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

// What a checkpoint reads of it: which parameters there are, which of them a folder has in parts, and whether the head
// is the embedding.
Json config_of(const arch::Architecture& architecture) {
  const arch::LayerSpec& layer = architecture.layers.front();
  const arch::Attention& attention = architecture.attention();
  if (layer.naming == arch::Naming::kGpt2) {
    return {{"architectures", {architecture.family}},
            {"vocab_size", architecture.vocab_size},
            {"n_embd", architecture.hidden_size},
            {"n_inner", layer.feed_forward.width},
            {"n_positions", architecture.max_position_embeddings},
            {"n_layer", architecture.num_hidden_layers()},
            {"n_head", attention.heads},
            {"tie_word_embeddings", architecture.tie_word_embeddings}};
  }
  if (architecture.encoder) {
    return {{"architectures", {architecture.family}},
            {"vocab_size", architecture.vocab_size},
            {"d_model", architecture.hidden_size},
            {"d_ff", layer.feed_forward.width},
            {"d_kv", attention.head_dim},
            {"num_heads", attention.heads},
            {"num_layers", architecture.encoder->layers},
            {"num_decoder_layers", architecture.num_hidden_layers() - architecture.encoder->layers},
            {"feed_forward_proj", layer.feed_forward.gated ? "gated-gelu" : "relu"},
            {"tie_word_embeddings", architecture.tie_word_embeddings}};
  }
  Json config = {{"architectures", {architecture.family}},
                 {"vocab_size", architecture.vocab_size},
                 {"hidden_size", architecture.hidden_size},
                 {"intermediate_size", layer.feed_forward.width},
                 {"num_hidden_layers", architecture.num_hidden_layers()},
                 {"num_attention_heads", attention.heads},
                 {"num_key_value_heads", attention.key_value_heads},
                 {"head_dim", attention.head_dim},
                 {"tie_word_embeddings", architecture.tie_word_embeddings}};
  if (const arch::Experts* experts = architecture.experts()) {
    config.update({{"moe_intermediate_size", layer.feed_forward.width},
                   {experts->scores.sigmoid ? "n_routed_experts" : "num_experts", experts->count},
                   {"num_experts_per_tok", experts->per_token},
                   {"first_k_dense_replace", 0},
                   {"partial_rotary_factor", 1.0}});
  }
  if (const std::optional<arch::LatentHeads>& latent = attention.latent) {
    config.update({{"q_lora_rank", latent->query_rank > 0 ? Json(latent->query_rank) : Json(nullptr)},
                   {"kv_lora_rank", latent->rank},
                   {"qk_nope_head_dim", attention.head_dim - latent->turned},
                   {"qk_rope_head_dim", latent->turned},
                   {"v_head_dim", latent->value_dim},
                   {"head_dim", latent->turned},
                   {"first_k_dense_replace", architecture.num_hidden_layers()}});
  }
  if (layer.naming == arch::Naming::kLfm2) {
    config["block_auto_adjust_ff_dim"] = false;
    config["layer_types"] = Json::array();
    for (const arch::LayerSpec& each : architecture.layers) {
      config["layer_types"].push_back(each.attends() ? "full_attention" : "conv");
      if (!each.attends()) config["conv_L_cache"] = std::get<arch::ShortConvolution>(each.mixer).taps;
    }
  }
  if (layer.naming == arch::Naming::kQwen35) {
    const double turned = static_cast<double>(attention.rotary->width) + 0.5;  // a share of heads is rounded down
    config["partial_rotary_factor"] = turned / static_cast<double>(attention.head_dim);
    config["layer_types"] = Json::array();
    for (const arch::LayerSpec& each : architecture.layers) {
      config["layer_types"].push_back(each.attends() ? "full_attention" : "linear_attention");
      if (each.attends()) continue;
      const auto& delta = std::get<arch::GatedDelta>(each.mixer);
      config.update({{"linear_num_key_heads", delta.key_heads},
                     {"linear_num_value_heads", delta.value_heads},
                     {"linear_key_head_dim", delta.key_dim},
                     {"linear_value_head_dim", delta.value_dim},
                     {"linear_conv_kernel_dim", delta.taps}});
    }
  }
  if (architecture.family == "Gemma4ForCausalLM") {
    const arch::Attention& last = architecture.layers.back().attention();
    config.update({{"hidden_size_per_layer_input", 0}, {"sliding_window", 5}});
    config["attention_k_eq_v"] = last.keys_are_values;
    config["layer_types"] = Json::array();
    for (const arch::LayerSpec& each : architecture.layers) {
      const bool full =
          each.attention().head_dim == last.head_dim && each.attention().key_value_heads == last.key_value_heads;
      config["layer_types"].push_back(full ? "full_attention" : "sliding_attention");
      config[full ? "global_head_dim" : "head_dim"] = each.attention().head_dim;
      config[full ? "num_global_key_value_heads" : "num_key_value_heads"] = each.attention().key_value_heads;
    }
  }
  return config;
}

// A folder for one checkpoint, beside a config.json as a model's folder has it.
class ScratchFolder {
 public:
  explicit ScratchFolder(const arch::Architecture& architecture)
      : path_(fs::temp_directory_path() / ("fathom-matrix-" + std::to_string(getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_ / "model");
    std::ofstream(path_ / "model" / "config.json") << format_json(config_of(architecture));
  }
  ~ScratchFolder() { fs::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The last token of each document of a packed row, which counts for nothing.
std::set<int64_t> ends_of_documents(const std::vector<int64_t>& lengths) {
  std::set<int64_t> ends;
  int64_t end = 0;
  for (const int64_t length : lengths) ends.insert((end += length) - 1);
  return ends;
}

// Random tokens, of which as many count as the shape says, drawn from anywhere in the batch.
data::Batch random_batch(const schedule::BatchShape& shape, int64_t vocabulary, SplitMix64& random) {
  data::Batch batch;
  batch.rows = shape.rows;
  batch.length = shape.length;
  batch.token_count = shape.rows * shape.length;
  batch.target_count = shape.targets;
  batch.document_lengths = shape.document_lengths;
  const std::set<int64_t> ends = ends_of_documents(shape.document_lengths);
  int64_t left = batch.token_count - static_cast<int64_t>(ends.size()), wanted = shape.targets;
  for (int64_t place = 0; place < batch.token_count; ++place) {
    const bool may = !ends.contains(place);
    const bool counts = may && random.below(static_cast<uint64_t>(left)) < static_cast<uint64_t>(wanted);
    left -= may ? 1 : 0;
    wanted -= counts ? 1 : 0;
    batch.ids.push_back(static_cast<int64_t>(random.below(static_cast<uint64_t>(vocabulary))));
    batch.targets.push_back(counts ? batch.ids.back() : data::kIgnored);
  }
  batch.source_length = shape.source_length;
  if (shape.source_length == 0) return batch;
  for (int64_t row = 0; row < shape.rows; ++row) {  // one of them whole, as the longest of a batch is
    const auto shorter = row == 0 ? 0 : random.below(static_cast<uint64_t>(shape.source_length));
    batch.source_lengths.push_back(shape.source_length - static_cast<int64_t>(shorter));
  }
  for (int64_t place = 0; place < shape.rows * shape.source_length; ++place) {
    batch.source_ids.push_back(static_cast<int64_t>(random.below(static_cast<uint64_t>(vocabulary))));
  }
  return batch;
}

std::vector<data::Batch> random_batches(const std::vector<schedule::BatchShape>& shapes, int64_t vocabulary,
                                        SplitMix64& random) {
  std::vector<data::Batch> batches;
  for (const schedule::BatchShape& shape : shapes) batches.push_back(random_batch(shape, vocabulary, random));
  return batches;
}

memory::Memory save(train::Trainer& trainer, int64_t step) {
  const ScratchFolder folder(trainer.model().architecture());
  return trainer.saving([&] {
    checkpoint::Snapshot snapshot;
    for (const model::Parameter& parameter : trainer.model().trained_parameters()) {
      snapshot.parameters.emplace_back(parameter.name, parameter.tensor);
    }
    snapshot.optimizer = trainer.optimizer().state();
    snapshot.state = {{"random", train::random_state(trainer.placement().device)}};
    const checkpoint::ModelFiles files = {folder.path() / "model", trainer.model().options().parameters.lora};
    checkpoint::save(folder.path() / "run", step, snapshot, files, 0);
  });
}

void add(std::vector<Figure>& figures, const memory::ComponentBytes& bytes, const std::string& when) {
  for (const Component component : memory::kComponents) {
    figures.push_back({std::string(component_name(component)) + " " + when, bytes[component]});
  }
}

}  // namespace

plan::Workload workload_of(const plan::testing::MatrixRun& run) {
  schedule::Schedule schedule = schedule::imagined_schedule(
      schedule::maximal_shapes(run.steps, schedule::kernel_traits(run.architecture)), run.evaluations, run.reference);
  if (!run.evaluations.empty()) {
    if (run.config.eval_strategy == config::Cadence::kNo) schedule.events.pop_back();
    const auto first_step = schedule.events.begin() + (run.reference.empty() ? 0 : 1);
    if (run.config.eval_on_start) schedule.events.insert(first_step, schedule::Schedule::kEvaluation);
  }
  return plan::make_workload(arch::resolve(run.config, run.architecture), std::move(schedule));
}

memory::Memory predict(const plan::testing::MatrixRun& run) {
  const Threads threads(run.config.num_threads);
  return dry_run_cpu(arch::resolve(run.config, run.architecture), nullptr, workload_of(run)).memory;
}

memory::Memory play(const plan::testing::MatrixRun& run, const train::Placement& placement,
                    const std::function<void()>& after_stage) {
  SplitMix64 random(1);
  memory::Memory memory;
  const auto add_stage = [&](const memory::Memory& stage) {
    memory.merge(stage);
    if (after_stage) after_stage();
  };
  const plan::Workload workload = workload_of(run);
  train::Trainer trainer(arch::resolve(run.config, run.architecture),
                         {workload.capacity_tokens, workload.capacity_source_tokens}, placement);
  trainer.model().reserve_positions(plan::longest_sequence(workload));
  trainer.model().initialise(static_cast<uint64_t>(run.config.seed));
  if (trainer.loss_scale()) {  // small enough for every step of these batches to be taken, as the dry run takes them
    trainer.set_loss_scale(optim::LossScale::from_json({{"value", 16}, {"good_steps", 0}, {"skipped_steps", 0}}));
  }
  add_stage(trainer.loaded());
  const auto evaluate = [&] {
    const auto batches = random_batches(run.evaluations, run.architecture.vocab_size, random);
    add_stage(trainer.evaluate(batches).memory);
  };
  if (!run.reference.empty()) {
    const auto batches = random_batches(run.reference, run.architecture.vocab_size, random);
    add_stage(trainer.evaluate(batches).memory);
  }
  if (run.config.eval_on_start) evaluate();
  for (const schedule::StepShape& step : run.steps) {
    add_stage(trainer.step(random_batches(step, run.architecture.vocab_size, random), run.config.learning_rate).memory);
  }
  if (run.config.eval_strategy != config::Cadence::kNo) evaluate();
  add_stage(save(trainer, static_cast<int64_t>(run.steps.size())));
  return memory;
}

memory::Memory measure(const plan::testing::MatrixRun& run) {
  const Threads threads(run.config.num_threads);
  return play(run, {at::kCPU, &ledger::install_cpu(), nullptr}, nullptr);
}

std::vector<Figure> figures(const memory::Memory& memory) {
  std::vector<Figure> figures = {{"peak", memory.peak}};
  add(figures, memory.at_peak, "at the peak");
  add(figures, memory.maximum, "at its maximum");
  for (const memory::Phase phase : memory::kPhases) {
    const std::string name(phase_name(phase));
    figures.push_back({"peak of " + name, memory.phase(phase).peak});
    add(figures, memory.phase(phase).at_peak, "at the peak of " + name);
    add(figures, memory.phase(phase).end, "at the end of " + name);
  }
  return figures;
}

std::vector<std::string> differences(const memory::Memory& predicted, const memory::Memory& measured) {
  const std::vector<Figure> left = figures(predicted), right = figures(measured);
  std::vector<std::pair<int64_t, std::string>> found;
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i].bytes == right[i].bytes) continue;
    found.emplace_back(
        std::abs(left[i].bytes - right[i].bytes),
        left[i].name + ": dry run " + std::to_string(left[i].bytes) + ", measured " + std::to_string(right[i].bytes));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> sentences;
  for (auto& [bytes, sentence] : found) sentences.push_back(std::move(sentence));
  return sentences;
}

}  // namespace fathom::play::testing
