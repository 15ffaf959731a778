// The order of optimizer steps over a dataset, and the shapes that decide a run's memory.
#include "train/steps.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace fathom::train {
namespace {

constexpr int64_t kMostSteps = 10'000'000;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

BatchShape shape_of(const data::Dataset& dataset, const std::vector<int64_t>& rows) {
  int64_t length = 0;
  for (int64_t row : rows) length = std::max(length, dataset.length(row));
  return {static_cast<int64_t>(rows.size()), length};
}

// The shapes that no other exceeds in both rows and length, in the order of their first appearance.
class Frontier {
 public:
  void add(const BatchShape& shape) {
    if (std::any_of(shapes_.begin(), shapes_.end(), [&](const BatchShape& other) { return covers(other, shape); }))
      return;
    std::erase_if(shapes_, [&](const BatchShape& other) { return covers(shape, other); });
    shapes_.push_back(shape);
  }
  const std::vector<BatchShape>& shapes() const { return shapes_; }

 private:
  static bool covers(const BatchShape& large, const BatchShape& small) {
    return large.rows >= small.rows && large.length >= small.length;
  }
  std::vector<BatchShape> shapes_;  // at most one for each number of rows
};

class StepFrontier {
 public:
  void add(const StepShape& step) {
    first_.add(step.front());
    for (size_t i = 1; i < step.size(); ++i) later_.add(step[i]);
  }
  std::vector<StepShape> steps() const {
    const std::vector<BatchShape>&first = first_.shapes(), &later = later_.shapes();
    std::vector<StepShape> steps;
    for (size_t i = 0; i < std::max(first.size(), later.size()); ++i) {
      StepShape& step = steps.emplace_back(StepShape{first[std::min(i, first.size() - 1)]});
      if (!later.empty()) step.push_back(later[std::min(i, later.size() - 1)]);
    }
    return steps;
  }

 private:
  Frontier first_, later_;
};

StepShape next_shape(StepOrder& order, const data::Dataset& dataset) {
  StepShape shape;
  for (const std::vector<int64_t>& rows : order.next()) shape.push_back(shape_of(dataset, rows));
  return shape;
}

}  // namespace

StepOrder::StepOrder(const config::RunConfig& config, int64_t examples)
    : sampler_(examples, config.per_device_train_batch_size, static_cast<uint64_t>(config.seed), config.shuffle),
      accumulation_(config.gradient_accumulation_steps),
      steps_per_epoch_(divide_up(sampler_.batches_per_epoch(), accumulation_)) {
  const double steps = config.max_steps > 0
                           ? static_cast<double>(config.max_steps)
                           : std::ceil(config.num_train_epochs * static_cast<double>(steps_per_epoch_));
  if (steps > kMostSteps) {
    throw UsageError("the run would take " + std::to_string(steps) + " steps; at most " + std::to_string(kMostSteps) +
                         " can be planned",
                     "lower num_train_epochs or max_steps");
  }
  total_steps_ = static_cast<int64_t>(steps);
}

std::vector<std::vector<int64_t>> StepOrder::next() {
  std::vector<std::vector<int64_t>> micro_batches;
  const int64_t epoch = sampler_.position().epoch;
  while (static_cast<int64_t>(micro_batches.size()) < accumulation_ && sampler_.position().epoch == epoch) {
    micro_batches.push_back(sampler_.next());
  }
  return micro_batches;
}

std::vector<StepShape> step_shapes(const config::RunConfig& config, const data::Dataset& dataset) {
  StepOrder order(config, dataset.size());
  std::vector<StepShape> shapes;
  for (int64_t step = 0; step < order.total_steps(); ++step) shapes.push_back(next_shape(order, dataset));
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
       evaluation_rows(dataset.size(), config.per_device_eval_batch_size)) {
    shapes.push_back(shape_of(dataset, rows));
  }
  return shapes;
}

std::vector<StepShape> maximal_shapes(const std::vector<StepShape>& steps) {
  StepFrontier frontier;
  for (const StepShape& step : steps) frontier.add(step);
  return steps.empty() ? std::vector<StepShape>{} : frontier.steps();
}

std::vector<StepShape> maximal_steps(const config::RunConfig& config, const data::Dataset& dataset) {
  StepOrder order(config, dataset.size());
  StepFrontier frontier;
  for (int64_t step = 0; step < order.total_steps(); ++step) frontier.add(next_shape(order, dataset));
  return frontier.steps();
}

}  // namespace fathom::train
