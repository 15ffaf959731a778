// Nothing but sizes: weights are drawn, and ids are counted.
#include "play/reference_model.h"

#include <numeric>
#include <span>
#include <vector>

namespace fathom::play {
namespace {

arch::Architecture reference_architecture(const ReferenceShape& shape) {
  arch::Architecture architecture;
  architecture.family = "LlamaForCausalLM";
  architecture.hidden_size = shape.width;
  architecture.vocab_size = shape.vocabulary;
  architecture.dtype = shape.dtype;
  architecture.layers.assign(static_cast<size_t>(shape.layers),
                             {.mixer = arch::Attention{.heads = shape.heads,
                                                       .key_value_heads = shape.key_value_heads,
                                                       .head_dim = shape.head_dim,
                                                       .rotary = arch::Rotary{.width = shape.head_dim}},
                              .feed_forward = {.width = shape.feed_forward}});
  return architecture;
}

data::Batch reference_batch(int64_t rows, int64_t length, int64_t vocabulary) {
  std::vector<data::Example> examples;
  for (int64_t row = 0; row < rows; ++row) {
    data::Example& example = examples.emplace_back();
    for (int64_t i = 0; i < length; ++i) {
      example.ids.push_back(static_cast<int32_t>((row * 31 + i * 7) % vocabulary));
    }
    example.labels = example.ids;
  }
  std::vector<int64_t> all(static_cast<size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  return data::make_batch(data::Dataset(examples), all, 0);
}

config::RunConfig with_drawn_weights(config::RunConfig config) {
  config.random_init = true;
  return config;
}

}  // namespace

ReferenceTraining::ReferenceTraining(const config::RunConfig& config, const ReferenceShape& shape, int64_t rows,
                                     int64_t length, const train::Placement& placement)
    : batch_(reference_batch(rows, length, shape.vocabulary)),
      trainer_(arch::resolve(with_drawn_weights(config), reference_architecture(shape)), rows * length, placement) {
  trainer_.model().initialise(1);
  trainer_.loaded();
}

void ReferenceTraining::step(const std::function<void()>& before_update) {
  trainer_.step(std::span(&batch_, 1), 1e-4, before_update);
}

void ReferenceTraining::evaluate() { trainer_.evaluate(std::span(&batch_, 1)); }

}  // namespace fathom::play
