// The shapes that decide a run's memory, from lengths and target counts alone.
#include "train/steps.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/bytes.h"
#include "base/error.h"

namespace fathom::train {
namespace {

BatchShape shape_of(const config::RunConfig& config, const data::Dataset& dataset, const std::vector<int64_t>& rows) {
  int64_t length = 0, targets = 0;
  for (int64_t row : rows) {
    length = std::max(length, dataset.length(row));
    targets += dataset.target_count(row);
  }
  if (!config.packing) {
    return {static_cast<int64_t>(rows.size()), data::padded_length(length, config.pad_to_multiple_of), targets};
  }
  BatchShape shape{1, 0, targets};
  for (int64_t row : rows) {
    shape.length += dataset.length(row);
    shape.document_lengths.push_back(dataset.length(row));
  }
  return shape;
}

// The shapes that no other exceeds in rows, length and targets, in the order of their first appearance.
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
    return large.rows >= small.rows && large.length >= small.length && large.targets >= small.targets &&
           (gathers(large) || !gathers(small));
  }
  // Where every token counts the loss takes the rows as they are, without a copy of those that do.
  static bool gathers(const BatchShape& shape) { return shape.targets < shape.rows * shape.length; }
  std::vector<BatchShape> shapes_;
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

StepShape next_shape(const config::RunConfig& config, StepOrder& order, const data::Dataset& dataset) {
  StepShape shape;
  for (const std::vector<int64_t>& rows : order.next()) shape.push_back(shape_of(config, dataset, rows));
  return shape;
}

}  // namespace

BatchShape whole_batch(int64_t rows, int64_t length) {
  return {rows, length, checked_multiply(rows, length - 1, "batch size × length")};
}

std::vector<StepShape> step_shapes(const config::RunConfig& config, const data::Dataset& dataset) {
  StepOrder order(config, dataset);
  std::vector<StepShape> shapes;
  for (int64_t step = 0; step < order.total_steps(); ++step) shapes.push_back(next_shape(config, order, dataset));
  return shapes;
}

std::vector<BatchShape> evaluation_shapes(const config::RunConfig& config, const data::Dataset& dataset) {
  std::vector<BatchShape> shapes;
  for (const auto& rows : evaluation_rows(config, dataset)) shapes.push_back(shape_of(config, dataset, rows));
  return shapes;
}

std::vector<StepShape> maximal_shapes(const std::vector<StepShape>& steps) {
  StepFrontier frontier;
  for (const StepShape& step : steps) frontier.add(step);
  return steps.empty() ? std::vector<StepShape>{} : frontier.steps();
}

std::vector<StepShape> maximal_steps(const config::RunConfig& config, const data::Dataset& dataset) {
  StepOrder order(config, dataset);
  StepFrontier frontier;
  for (int64_t step = 0; step < order.total_steps(); ++step) frontier.add(next_shape(config, order, dataset));
  return frontier.steps();
}

}  // namespace fathom::train
