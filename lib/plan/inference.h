// What a model takes to be used rather than trained: weights in each precision, and the cache of keys and values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/architecture.h"

namespace fathom::plan {

// Bytes per parameter of a storage format, without the scales of quantized ones.
struct WeightFormat {
  const char* name;  // "FP32"
  double bytes_per_parameter;
};
inline constexpr WeightFormat kWeightFormats[] = {{"FP32", 4}, {"FP16, BF16", 2}, {"INT8, FP8", 1}, {"4-bit", 0.5}};
int64_t weight_bytes(int64_t parameters, const WeightFormat& format);

// Keys and values of every layer that attends for one token: 2 · L · K · E · 2 bytes, in 16 bits (Pope et al. 2022,
// arXiv 2211.05102, section 2.1).
int64_t cache_bytes_per_token(const arch::Architecture& architecture);

struct Inference {
  int64_t parameters = 0;
  int64_t cache_bytes_per_token = 0;
  struct Weights {
    std::string format;
    int64_t bytes = 0;
  };
  std::vector<Weights> weights;  // in the order of kWeightFormats
  struct Cache {
    int64_t batch = 0, length = 0;
    int64_t bytes = 0;  // with what layers keep of each text whatever its length
  };
  std::vector<Cache> caches;  // of every batch at every length, lengths first
};

// batches x lengths, each at least 1. Throws Error where a size leaves int64.
Inference estimate_inference(const arch::Architecture& architecture, const std::vector<int64_t>& batches,
                             const std::vector<int64_t>& lengths);
// One row, a few, many; short, medium, and as long as the model's positions go.
Inference usual_inference(const arch::Architecture& architecture);

}  // namespace fathom::plan
