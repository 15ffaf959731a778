// The shapes that decide a run's memory, from lengths and target counts alone.
#include "schedule/steps.h"

#include <algorithm>
#include <string>
#include <utility>

#include "arch/attention_by_scores.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/numbers.h"
#include "base/product.h"
#include "schedule/frontier.h"

namespace fathom::schedule {
namespace {

BatchShape shape_of(const config::RunConfig& config, const data::Dataset& dataset,
                    const std::vector<int64_t>& examples) {
  const std::vector<int64_t> rows = dataset.rows_of(examples);
  int64_t length = 0, source = 0, targets = 0;
  for (int64_t row : rows) {
    length = std::max(length, dataset.decoder_start() ? dataset.target_count(row) : dataset.length(row));
    if (dataset.decoder_start()) source = std::max(source, dataset.source_length(row));
    targets += dataset.target_count(row);
  }
  if (!config.packing) {
    const auto padded = [&](int64_t longest) { return data::padded_length(longest, config.pad_to_multiple_of); };
    return {static_cast<int64_t>(rows.size()), padded(length), targets, {}, padded(source)};
  }
  BatchShape shape{1, 0, targets};
  for (int64_t row : rows) {
    shape.length += dataset.length(row);
    shape.document_lengths.push_back(dataset.length(row));
  }
  return shape;
}

constexpr int64_t kMostDocuments = 1'000'000;  // of a batch that only its size describes
constexpr int64_t kMostTokens = 100'000'000;   // of a batch, for each of which a plan makes an id

}  // namespace

KernelTraits kernel_traits(const arch::Architecture& architecture) {
  const bool by_scores = !architecture.layers.empty() && arch::attends_by_scores(architecture, /*training=*/true);
  return {architecture.sliding_window(), by_scores ? architecture.attention().heads : 0};
}

void Extent::widen(const BatchShape& batch) {
  const auto widen_to = [&](int64_t& most, int64_t length) {
    const int64_t count = checked_multiply(batch.rows, length, "batch size × length");
    if (count > kMostTokens) {
      throw UsageError("a batch of " + format_counted(batch.rows, "row") + " of " + format_count(length) +
                           " tokens; at most " + format_count(kMostTokens) + " tokens of a batch can be planned",
                       kSmallerBatch);
    }
    most = std::max(most, count);
  };
  widen_to(tokens, batch.length);
  widen_to(source_tokens, batch.source_length);
}

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

void refuse_longer_texts(std::optional<int64_t> learned, const config::RunConfig& config, int64_t longest) {
  if (!learned) return;
  const std::string but = " tokens, but the model has learned " + format_count(*learned) + " positions";
  if (longest > *learned) {
    throw UsageError(
        "max_length: " + std::to_string(config.max_length) + " takes texts of " + format_count(longest) + but,
        "set max_length: " + std::to_string(*learned));
  }
  const int64_t padded = data::padded_length(longest, config.pad_to_multiple_of);
  if (padded > *learned) {
    throw UsageError("pad_to_multiple_of: " + std::to_string(config.pad_to_multiple_of) + " makes rows of " +
                         format_count(padded) + but,
                     "set pad_to_multiple_of: 0");
  }
}

BatchShape largest_batch(const arch::Run& run) {
  const config::RunConfig& config = run.config;
  refuse_longer_texts(run.architecture.longest_text(), config, config.max_length);
  const int64_t rows = config::rows_of(config, config.per_device_train_batch_size);
  const auto padded = [&](int64_t longest) { return data::padded_length(longest, config.pad_to_multiple_of); };
  if (!run.architecture.encoder) {
    BatchShape batch = whole_batch(rows, config.max_length, config.packing);
    if (!config.packing) batch.length = padded(batch.length);
    return batch;
  }
  const int64_t length = config::target_length(config), targets = checked_multiply(rows, length, "batch size × length");
  return {rows, padded(length), targets, {}, padded(config.max_length)};
}

std::vector<BatchShape> largest_reference(const arch::Run& run) {
  if (!config::row_of(run.config.objective).needs_reference) return {};
  BatchShape batch = largest_batch(run);
  batch.rows = config::rows_of(run.config, run.config.per_device_eval_batch_size);
  batch.targets = checked_multiply(batch.rows, run.config.max_length - 1, "batch size × length");
  return {batch};
}

StepShape accumulated(const config::RunConfig& config, const BatchShape& batch) {
  return StepShape(static_cast<size_t>(std::min<int64_t>(3, config.gradient_accumulation_steps)), batch);
}

BatchShape batch_of_longest(int64_t rows, const std::vector<StepShape>& steps, bool packed) {
  int64_t length = 1, source = 0;
  for (const StepShape& step : steps) {
    for (const BatchShape& batch : step) {
      source = std::max(source, batch.source_length);
      length = std::max(length, batch.source_length > 0 ? batch.length : longest_sequence(batch));
    }
  }
  if (source == 0) return whole_batch(rows, length, packed);
  return {rows, length, checked_multiply(rows, length, "batch size × length"), {}, source};
}

int64_t longest_sequence(const BatchShape& batch) {
  if (batch.document_lengths.empty()) return std::max(batch.length, batch.source_length);
  return *std::max_element(batch.document_lengths.begin(), batch.document_lengths.end());
}

StepShape shapes_of(const config::RunConfig& config, const data::Dataset& dataset,
                    std::vector<std::vector<int64_t>> batches, int64_t rank) {
  StepShape shape;
  for (const std::vector<int64_t>& rows : share_of(config, rank, std::move(batches)))
    shape.push_back(shape_of(config, dataset, rows));
  return shape;
}

std::vector<StepShape> step_shapes(const config::RunConfig& config, const data::Dataset& dataset) {
  StepOrder order(config, dataset);
  std::vector<StepShape> shapes;
  for (int64_t step = 0; step < order.total_steps(); ++step) shapes.push_back(shapes_of(config, dataset, order.next()));
  return shapes;
}

std::vector<BatchShape> evaluation_shapes(const config::RunConfig& config, const data::Dataset& dataset) {
  return shapes_of(config, dataset, evaluation_rows(config, dataset));
}

std::vector<StepShape> maximal_shapes(const std::vector<StepShape>& steps, const KernelTraits& traits) {
  Frontier of_first(traits), of_later(traits);
  int64_t event = 0;
  for (const StepShape& step : steps) {
    for (size_t i = 0; i < step.size(); ++i) (i == 0 ? of_first : of_later).add(step[i], event);
    ++event;
  }
  const std::vector<Frontier::Member> first = of_first.members(), later = of_later.members();
  std::vector<StepShape> maximal;
  for (size_t i = 0; i < std::max(first.size(), later.size()); ++i) {
    StepShape& step = maximal.emplace_back(StepShape{first[std::min(i, first.size() - 1)].shape});
    if (!later.empty()) step.push_back(later[std::min(i, later.size() - 1)].shape);
  }
  return maximal;
}

}  // namespace fathom::schedule
