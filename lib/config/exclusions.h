// What rules between keys are made of: what holds of a run, and which values exclude each other.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "config/run_config.h"

namespace fathom::config {

inline constexpr auto kIsLora = [](const RunConfig& run) { return run.method == Method::kLora; };
inline constexpr auto kIsIn4Bit = [](const RunConfig& run) { return kIsLora(run) && run.load_in_4bit; };
inline constexpr auto kIsQat = [](const RunConfig& run) { return run.qat != Qat::kNone; };
inline constexpr auto kIsDpo = [](const RunConfig& run) { return run.objective == Objective::kDpo; };
inline constexpr auto kIsSimpo = [](const RunConfig& run) { return run.objective == Objective::kSimpo; };
inline constexpr auto kLearnsPreferences = [](const RunConfig& run) {
  return row_of(run.objective).learns_preferences();
};
inline constexpr auto kReadsSmoothing = [](const RunConfig& run) {
  return kIsDpo(run) && row_of(run.loss_type).smoothing != Smoothing::kNone;
};
inline constexpr auto kReadsBetas = [](const RunConfig& run) { return row_of(run.optim).reads_betas; };
inline constexpr auto kIsAdamW = [](const RunConfig& run) { return row_of(run.optim).is_adamw; };
inline constexpr auto kIsFsdp = [](const RunConfig& run) { return run.strategy == Strategy::kFsdp; };
inline constexpr auto kIsFull = [](const RunConfig& run) { return run.method == Method::kFull; };
inline constexpr auto kStoresBf16 = [](const RunConfig& run) { return run.dtype == DType::kBF16; };
inline constexpr auto kEvaluatesBySteps = [](const RunConfig& run) { return run.eval_strategy == Cadence::kSteps; };
inline constexpr auto kEvaluates = [](const RunConfig& run) { return run.eval_strategy != Cadence::kNo; };
inline constexpr auto kWritesAnswers = [](const RunConfig& run) { return run.predict_with_generate; };
inline constexpr auto kSavesBySteps = [](const RunConfig& run) { return run.save_strategy == Cadence::kSteps; };
inline constexpr auto kSaves = [](const RunConfig& run) {
  return run.save_strategy != Cadence::kNo || run.load_best_model_at_end;
};

// "optim: adamw, adamw_8bit or adamw_bf16", where the trait is so.
template <typename Trait>
std::string optimizers(const Trait& trait, bool holds) {
  std::string text;
  for (const OptimizerRow& row : kOptimizers) {
    if (std::invoke(trait, row) == holds) text.append(text.empty() ? "optim: " : ", ").append(row.name);
  }
  const size_t last = text.rfind(", ");
  return last == std::string::npos ? text : text.replace(last, 2, " or ");
}
inline const std::string kAdamWs = optimizers(&OptimizerRow::is_adamw, true);

// `key` must be as `expected` says; `broken` tells when it is not. Only where the keys of `beside` are sound
// themselves.
struct Exclusion {
  std::string_view key;
  std::array<std::string_view, 2> beside;
  std::string_view expected;
  std::string_view remedy;
  bool (*broken)(const RunConfig&);
};

std::span<const Exclusion> exclusions();

}  // namespace fathom::config
