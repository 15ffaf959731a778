// The order of optimizer steps over a dataset, and the shapes that decide a run's memory.
#include "train/steps.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace fathom::train {
namespace {

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

BatchShape shape_of(const data::Dataset& dataset, const std::vector<int64_t>& rows) {
  size_t length = 0;
  for (int64_t row : rows) length = std::max(length, dataset.examples[row].ids.size());
  return {static_cast<int64_t>(rows.size()), static_cast<int64_t>(length)};
}

bool dominates(const StepShape& large, const StepShape& small) {
  if (large.size() < small.size()) return false;
  for (size_t i = 0; i < small.size(); ++i) {
    if (large[i].rows < small[i].rows || large[i].length < small[i].length) return false;
  }
  return true;
}

}  // namespace

StepOrder::StepOrder(const config::RunConfig& config, int64_t examples)
    : sampler_(examples, config.per_device_train_batch_size, static_cast<uint64_t>(config.seed), config.shuffle),
      accumulation_(config.gradient_accumulation_steps),
      steps_per_epoch_(divide_up(sampler_.batches_per_epoch(), accumulation_)),
      total_steps_(config.max_steps > 0 ? config.max_steps
                                        : static_cast<int64_t>(std::ceil(config.num_train_epochs *
                                                                         static_cast<double>(steps_per_epoch_)))) {}

std::vector<std::vector<int64_t>> StepOrder::next() {
  std::vector<std::vector<int64_t>> micro_batches;
  const int64_t epoch = sampler_.position().epoch;
  while (static_cast<int64_t>(micro_batches.size()) < accumulation_ && sampler_.position().epoch == epoch) {
    micro_batches.push_back(sampler_.next());
  }
  return micro_batches;
}

std::vector<StepShape> step_shapes(const config::RunConfig& config, const data::Dataset& dataset) {
  StepOrder order(config, static_cast<int64_t>(dataset.examples.size()));
  std::vector<StepShape> shapes;
  for (int64_t step = 0; step < order.total_steps(); ++step) {
    StepShape shape;
    for (const std::vector<int64_t>& rows : order.next()) shape.push_back(shape_of(dataset, rows));
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

std::vector<std::vector<int64_t>> evaluation_rows(int64_t examples, int64_t batch_size) {
  std::vector<std::vector<int64_t>> batches;
  for (int64_t start = 0; start < examples; start += batch_size) {
    std::vector<int64_t>& rows = batches.emplace_back();
    for (int64_t row = start; row < std::min(examples, start + batch_size); ++row) rows.push_back(row);
  }
  return batches;
}

std::vector<BatchShape> evaluation_shapes(const config::RunConfig& config, const data::Dataset& dataset) {
  std::vector<BatchShape> shapes;
  for (const auto& rows :
       evaluation_rows(static_cast<int64_t>(dataset.examples.size()), config.per_device_eval_batch_size)) {
    shapes.push_back(shape_of(dataset, rows));
  }
  return shapes;
}

std::vector<StepShape> maximal_shapes(const std::vector<StepShape>& steps) {
  std::vector<StepShape> distinct;
  std::set<StepShape> known;
  for (const StepShape& step : steps) {
    if (known.insert(step).second) distinct.push_back(step);
  }
  std::vector<StepShape> maximal;
  for (size_t i = 0; i < distinct.size(); ++i) {
    const bool dominated = std::any_of(distinct.begin(), distinct.end(), [&](const StepShape& other) {
      return &other != &distinct[i] && dominates(other, distinct[i]);
    });
    if (!dominated) maximal.push_back(distinct[i]);
  }
  return maximal;
}

}  // namespace fathom::train
