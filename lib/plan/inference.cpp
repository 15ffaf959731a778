// Parameters times bytes; tokens times bytes.
#include "plan/inference.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/bytes.h"

namespace fathom::plan {

int64_t weight_bytes(int64_t parameters, const WeightFormat& format) {
  checked_multiply(parameters, 4, "bytes of the weights");
  return std::llround(static_cast<double>(parameters) * format.bytes_per_parameter);
}

int64_t cache_bytes_per_token(const arch::Architecture& architecture) {
  constexpr int64_t kKeysAndValues = 2, kBytes = 2;
  int64_t elements = 0;
  for (int64_t layer = architecture.encoder_layers(); layer < architecture.num_hidden_layers(); ++layer) {
    elements =
        checked_add(elements, architecture.layers[static_cast<size_t>(layer)].attention.keys(), "cache of a token");
  }
  return kKeysAndValues * kBytes * elements;
}

Inference estimate_inference(const arch::Architecture& architecture, const std::vector<int64_t>& batches,
                             const std::vector<int64_t>& lengths) {
  Inference inference;
  inference.parameters = arch::parameter_count(architecture);
  inference.cache_bytes_per_token = cache_bytes_per_token(architecture);
  for (const WeightFormat& format : kWeightFormats) {
    inference.weights.push_back({format.name, weight_bytes(inference.parameters, format)});
  }
  for (const int64_t length : lengths) {
    for (const int64_t batch : batches) {
      const int64_t tokens = checked_multiply(batch, length, "tokens of the cache");
      inference.caches.push_back(
          {batch, length, checked_multiply(tokens, inference.cache_bytes_per_token, "bytes of the cache")});
    }
  }
  return inference;
}

Inference usual_inference(const arch::Architecture& architecture) {
  std::set<int64_t> lengths;
  for (const int64_t length : {int64_t{2048}, int64_t{8192}, architecture.max_position_embeddings}) {
    lengths.insert(std::min(length, architecture.max_position_embeddings));
  }
  return estimate_inference(architecture, {1, 8, 32}, {lengths.begin(), lengths.end()});
}

}  // namespace fathom::plan
