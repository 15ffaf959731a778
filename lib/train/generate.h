// Text from a model: one token after another, greedy or sampled, with a cache of keys and values.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/decoder.h"

namespace fathom::train {

struct GenerationOptions {
  int64_t max_new_tokens = 128;
  double temperature = 0;  // 0: greedy
  int64_t top_k = 0;       // 0: no limit
  double top_p = 1;        // smallest set of tokens whose probabilities add up to it
  uint64_t seed = 42;      // of the sampling; the same seed gives the same text
  std::vector<int64_t> stop_ids;
};

// Continues the prompt (at least one id) until a stop id, which is not returned, or max_new_tokens; an encoder reads
// it, where there is one, and the decoder answers. The prompt and what is added must fit the model's
// max_position_embeddings, else Error. on_token, if set, sees each id as it comes, and
// ends the text there by saying false. Under autocast if the caller says so.
std::vector<int32_t> generate(model::Decoder& model, const std::vector<int32_t>& prompt,
                              const GenerationOptions& options, const std::function<bool(int32_t)>& on_token = nullptr);

// The next id for logits_V (FP32, host): the largest for temperature 0, else drawn with `uniform` in [0, 1).
// Throws Error for logits that are not finite; -inf, an id that is never drawn, is allowed beside finite ones.
int32_t choose_token(const std::vector<float>& logits_V, const GenerationOptions& options, double uniform);

}  // namespace fathom::train
