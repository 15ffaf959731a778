// Data and settings for tests of the order of a run: lengths and counts alone matter.
#pragma once

#include <cstdint>
#include <utility>
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

// Sources and targets of these lengths.
inline data::Dataset pairs_of(const std::vector<std::pair<int64_t, int64_t>>& lengths) {
  std::vector<data::Example> examples;
  for (const auto& [source, target] : lengths) {
    const std::vector<int32_t> ids(static_cast<size_t>(source + target), 1);
    std::vector<int32_t> labels(static_cast<size_t>(source), static_cast<int32_t>(data::kIgnored));
    labels.insert(labels.end(), static_cast<size_t>(target), 1);
    examples.push_back({ids, labels});
  }
  data::Dataset dataset(examples);
  dataset.set_decoder_start(0);
  return dataset;
}

inline config::RunConfig config_of(int64_t batch, int64_t accumulation, double epochs) {
  config::RunConfig config;
  config.per_device_train_batch_size = batch;
  config.gradient_accumulation_steps = accumulation;
  config.num_train_epochs = epochs;
  return config;
}

}  // namespace fathom::schedule::testing
