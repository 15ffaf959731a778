// A tiny decoder and batches of random tokens for the trainer's tests.
#pragma once

#include <random>
#include <vector>

#include "arch/architecture.h"
#include "config/run_config.h"
#include "data/batch.h"
#include "ledger/ledger.h"
#include "train/trainer.h"

namespace fathom::train::testing {

// The CPU's ledger; the allocator is installed once per process.
inline ledger::Ledger& cpu_ledger() {
  static ledger::Ledger& ledger = ledger::install_cpu();
  return ledger;
}

inline arch::Architecture tiny_architecture() {
  arch::Architecture architecture;
  architecture.family = "LlamaForCausalLM";
  architecture.vocab_size = 101;
  architecture.hidden_size = 24;
  architecture.layers.assign(
      2, {.mixer = arch::Attention{.heads = 4, .key_value_heads = 2, .head_dim = 6, .rotary = arch::Rotary{.width = 6}},
          .feed_forward = {.width = 56}});
  architecture.initializer_range = 0.2;
  return architecture;
}

inline config::RunConfig tiny_config() {
  config::RunConfig config;
  config.random_init = true;
  config.learning_rate = 1e-3;
  config.max_grad_norm = 0;
  return config;
}

// Examples of the given lengths with random ids; every token but the first is a target.
inline data::Dataset random_dataset(const std::vector<int64_t>& lengths, int64_t vocabulary, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<data::Example> examples;
  for (int64_t length : lengths) {
    data::Example& example = examples.emplace_back();
    for (int64_t i = 0; i < length; ++i) example.ids.push_back(static_cast<int32_t>(random() % vocabulary));
    example.labels = example.ids;
  }
  return data::Dataset(examples);
}

// A trainer on the CPU with freshly initialised weights.
inline std::unique_ptr<Trainer> tiny_trainer(const config::RunConfig& config, int64_t capacity_tokens = 4096,
                                             const arch::Architecture& architecture = tiny_architecture()) {
  auto trainer = std::make_unique<Trainer>(arch::resolve(config, architecture), capacity_tokens,
                                           Placement{at::kCPU, &cpu_ledger(), nullptr});
  trainer->model().initialise(7);
  trainer->loaded();
  return trainer;
}

}  // namespace fathom::train::testing
