// Groups of batches, of examples or of bins.
#include "schedule/step_order.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "base/numbers.h"
#include "base/rounding.h"

namespace fathom::schedule {
namespace {

constexpr int64_t kMostSteps = 10'000'000;

data::Bins bins_of(const config::RunConfig& config, const data::Dataset& dataset) {
  return config.packing ? data::pack(dataset, config.max_length) : data::Bins();
}

data::Arrange arrangement(const config::RunConfig& config, const data::Dataset& dataset) {
  if (!config.group_by_length) return nullptr;
  std::vector<int32_t> lengths;
  lengths.reserve(static_cast<size_t>(dataset.size()));
  for (int64_t row = 0; row < dataset.size(); ++row) lengths.push_back(static_cast<int32_t>(dataset.length(row)));
  const int64_t step_rows =
      config.per_device_train_batch_size * config.gradient_accumulation_steps * config.num_processes;
  return data::grouped_by_length(std::move(lengths), step_rows);
}

std::vector<int64_t> rows_of(const data::Bins& bins, const std::vector<int64_t>& chosen) {
  std::vector<int64_t> rows;
  for (const int64_t bin : chosen) rows.insert(rows.end(), bins.rows(bin).begin(), bins.rows(bin).end());
  return rows;
}

}  // namespace

StepOrder::StepOrder(const config::RunConfig& config, const data::Dataset& dataset)
    : bins_(bins_of(config, dataset)),
      packing_(config.packing),
      sampler_(packing_ ? bins_.size() : dataset.size(), config.per_device_train_batch_size,
               static_cast<uint64_t>(config.seed), config.shuffle, arrangement(config, dataset)),
      accumulation_(config.gradient_accumulation_steps * config.num_processes),
      steps_per_epoch_(divide_up(sampler_.batches_per_epoch(), accumulation_)) {
  if (sampler_.batches_per_epoch() > 0 && sampler_.batches_per_epoch() < config.num_processes) {
    throw UsageError(std::to_string(config.num_processes) + " processes for " +
                         std::to_string(sampler_.batches_per_epoch()) + " batches of data",
                     "lower num_processes or per_device_train_batch_size");
  }
  const double steps = config.max_steps > 0
                           ? static_cast<double>(config.max_steps)
                           : std::ceil(config.num_train_epochs * static_cast<double>(steps_per_epoch_));
  if (steps > kMostSteps) {
    throw UsageError("the run would take " + format_decimal(steps, 0) + " steps; at most " +
                         format_decimal(kMostSteps, 0) + " can be planned",
                     "lower num_train_epochs or max_steps");
  }
  total_steps_ = static_cast<int64_t>(steps);
}

int64_t evaluation_steps(const config::RunConfig& config) {
  return config.eval_steps > 0 ? config.eval_steps : config.logging_steps;
}

int64_t saves_to_come(const config::RunConfig& config, const StepOrder& order, int64_t step) {
  const auto to_come = [&](config::Cadence cadence, int64_t steps) {
    if (cadence == config::Cadence::kNo) return int64_t{0};
    const int64_t every = cadence == config::Cadence::kSteps ? steps : order.steps_per_epoch();
    return order.total_steps() / every - step / every;
  };
  const int64_t best = config.load_best_model_at_end ? to_come(config.eval_strategy, evaluation_steps(config)) : 0;
  return checked_add(to_come(config.save_strategy, config.save_steps), best, "checkpoints");
}

config::RunConfig without_late_evaluations(config::RunConfig config, const data::Dataset& dataset) {
  if (config.eval_strategy != config::Cadence::kSteps || dataset.empty()) return config;
  if (evaluation_steps(config) <= StepOrder(config, dataset).total_steps()) return config;
  const config::RunConfig plain;
  config.eval_strategy = config::Cadence::kNo;
  config.eval_steps = plain.eval_steps;
  config.load_best_model_at_end = plain.load_best_model_at_end;
  config.early_stopping_patience = plain.early_stopping_patience;
  return config;
}

std::vector<std::vector<int64_t>> StepOrder::next() {
  std::vector<std::vector<int64_t>> micro_batches;
  const int64_t epoch = sampler_.position().epoch;
  while (static_cast<int64_t>(micro_batches.size()) < accumulation_ && sampler_.position().epoch == epoch) {
    std::vector<int64_t> chosen = sampler_.next();
    micro_batches.push_back(packing_ ? rows_of(bins_, chosen) : std::move(chosen));
  }
  return micro_batches;
}

std::vector<std::vector<int64_t>> evaluation_rows(const config::RunConfig& config, const data::Dataset& dataset) {
  const data::Bins bins = bins_of(config, dataset);
  const int64_t all = config.packing ? bins.size() : dataset.size(), batch_size = config.per_device_eval_batch_size;
  std::vector<std::vector<int64_t>> batches;
  for (int64_t start = 0; start < all; start += batch_size) {
    std::vector<int64_t> chosen;
    for (int64_t i = start; i < std::min(all, start + batch_size); ++i) chosen.push_back(i);
    batches.push_back(config.packing ? rows_of(bins, chosen) : std::move(chosen));
  }
  return batches;
}

data::Batch batch_of(const config::RunConfig& config, const data::Dataset& dataset, const std::vector<int64_t>& rows,
                     int32_t pad_id) {
  if (config.packing) return data::make_packed_batch(dataset, rows);
  return data::make_batch(dataset, dataset.rows_of(rows), pad_id, config.pad_to_multiple_of);
}

}  // namespace fathom::schedule
