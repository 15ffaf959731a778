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

namespace {

// Of one text of so many tokens.
int64_t cache_bytes(const arch::Architecture& architecture, int64_t tokens) {
  constexpr const char* kCache = "bytes of the cache";
  int64_t bytes = 0;
  for (auto layer = static_cast<size_t>(architecture.encoder_layers()); layer < architecture.layers.size(); ++layer) {
    for (const auto& kept : arch::kept_while_generating(architecture, architecture.layers[layer], 1, tokens)) {
      int64_t product = kept.in_fp32 ? 4 : 2;
      for (const int64_t size : kept.sizes) product = checked_multiply(product, size, kCache);
      bytes = checked_add(bytes, product, kCache);
    }
  }
  return bytes;
}

}  // namespace

int64_t cache_bytes_per_token(const arch::Architecture& architecture) {
  return cache_bytes(architecture, 1) - cache_bytes(architecture, 0);
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
      inference.caches.push_back(
          {batch, length, checked_multiply(batch, cache_bytes(architecture, length), "bytes of the cache")});
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
