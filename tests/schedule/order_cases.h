// Data and settings for tests of the order of a run: lengths and counts alone matter.
#pragma once

#include <cstdint>
#include <vector>

#include "config/run_config.h"
#include "data/dataset.h"

namespace fathom::schedule::testing {

// One example of each length, all of whose tokens count.
inline data::Dataset dataset_of(const std::vector<int64_t>& lengths) {
  std::vector<data::Example> examples;
  for (int64_t length : lengths) {
    const std::vector<int32_t> ids(static_cast<size_t>(length), 1);
    examples.push_back({ids, ids});
  }
  return data::Dataset(examples);
}

inline config::RunConfig config_of(int64_t batch, int64_t accumulation, double epochs) {
  config::RunConfig config;
  config.per_device_train_batch_size = batch;
  config.gradient_accumulation_steps = accumulation;
  config.num_train_epochs = epochs;
  return config;
}

}  // namespace fathom::schedule::testing
