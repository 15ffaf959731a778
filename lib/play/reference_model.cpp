// Nothing but sizes: weights are drawn, and ids are counted.
#include "play/reference_model.h"

#include <numeric>
#include <vector>

namespace fathom::play {

arch::Architecture reference_architecture(const ReferenceShape& shape) {
  arch::Architecture architecture;
  architecture.family = "LlamaForCausalLM";
  architecture.hidden_size = shape.width;
  architecture.vocab_size = shape.vocabulary;
  architecture.dtype = shape.dtype;
  architecture.layers.assign(static_cast<size_t>(shape.layers),
                             {.attention = {.heads = shape.heads,
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

}  // namespace fathom::play
