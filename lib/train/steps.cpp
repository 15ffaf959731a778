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

constexpr int64_t kMostDocuments = 1'000'000;  // of a batch that only its size describes

// What of a packed batch decides about memory besides its tokens: the borders on the device and the flash kernel's
// padding follow the number of documents, temporaries the longest, math attention's probabilities the squares.
struct DocumentsSummary {
  explicit DocumentsSummary(const std::vector<int64_t>& lengths) : count(static_cast<int64_t>(lengths.size())) {
    for (const int64_t length : lengths) {
      longest = std::max(longest, length);
      squares = checked_add(squares, checked_multiply(length, length, "squares of lengths"), "squares of lengths");
    }
  }
  bool covers(const DocumentsSummary& small) const {
    return count >= small.count && longest >= small.longest && squares >= small.squares;
  }
  int64_t count, longest = 0, squares = 0;
};

// The shapes that no other exceeds in rows, length, targets and documents, in the order of their first appearance.
class Frontier {
 public:
  void add(const BatchShape& shape) {
    const Member added(shape);
    if (std::any_of(members_.begin(), members_.end(), [&](const Member& other) { return other.covers(added); })) return;
    std::erase_if(members_, [&](const Member& other) { return added.covers(other); });
    members_.push_back(added);
  }
  std::vector<BatchShape> shapes() const {
    std::vector<BatchShape> shapes;
    for (const Member& member : members_) shapes.push_back(member.shape);
    return shapes;
  }

 private:
  struct Member {
    explicit Member(const BatchShape& shape_in) : shape(shape_in), documents(shape_in.document_lengths) {}
    // Where every token counts the loss takes the rows as they are, without a copy of those that do.
    bool gathers() const { return shape.targets < shape.rows * shape.length; }
    bool covers(const Member& small) const {
      return shape.rows >= small.shape.rows && shape.length >= small.shape.length &&
             shape.targets >= small.shape.targets && (gathers() || !small.gathers()) &&
             documents.covers(small.documents);
    }
    BatchShape shape;
    DocumentsSummary documents;
  };
  std::vector<Member> members_;
};

class StepFrontier {
 public:
  void add(const StepShape& step) {
    first_.add(step.front());
    for (size_t i = 1; i < step.size(); ++i) later_.add(step[i]);
  }
  std::vector<StepShape> steps() const {
    const std::vector<BatchShape> first = first_.shapes(), later = later_.shapes();
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

BatchShape whole_batch(int64_t rows, int64_t length, bool packed) {
  const int64_t targets = checked_multiply(rows, length - 1, "batch size × length");
  if (!packed) return {rows, length, targets};
  if (rows > kMostDocuments) {
    throw UsageError("a packed batch of " + std::to_string(rows) + " documents; at most " +
                         std::to_string(kMostDocuments) + " can be planned",
                     "lower per_device_train_batch_size");
  }
  return {1, checked_multiply(rows, length, "batch size × length"), targets,
          std::vector<int64_t>(static_cast<size_t>(rows), length)};
}

int64_t longest_sequence(const BatchShape& batch) {
  if (batch.document_lengths.empty()) return batch.length;
  return *std::max_element(batch.document_lengths.begin(), batch.document_lengths.end());
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
