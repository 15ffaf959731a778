// metrics.jsonl: one JSON object per logged step or evaluation, each step once also after a resume.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "report/sink.h"

namespace fathom::report {

// Numbers that some runs report beside what all do, by name ("router_loss"): every log writes them as they come. Names
// that the terminal's line looks for:
inline constexpr const char *kLossScale = "loss_scale", *kSkippedSteps = "skipped_steps";
// What those of evaluations begin with.
inline constexpr std::string_view kOfEvaluation = "eval_";
using Number = std::variant<int64_t, double>;
using Scalars = std::vector<std::pair<std::string, Number>>;
double as_double(const Number& number);
// Unset: it is not among them.
std::optional<double> number_of(const Scalars& scalars, std::string_view name);

struct StepMetrics {
  int64_t step = 0;  // optimizer steps done, 1 after the first
  double epoch = 0;  // passes over the data so far, with the share of the current one
  double loss = 0;   // mean over the target tokens since the last logged step
  double learning_rate = 0;
  double grad_norm = 0;          // before clipping
  double clipped_share = 0;      // of the steps since the last logged one, those whose gradients were clipped
  int64_t tokens = 0;            // of the run so far, padding not counted
  double tokens_per_second = 0;  // of the steps since the last logged one; a resumed run begins anew
  double interval_seconds = 0;   // that those steps took, evaluations and saves apart
  double step_seconds = 0;       // of this step alone
  int64_t live_bytes = 0;        // at the end of the step
  int64_t peak_bytes = 0;        // of the run so far
  Scalars more = {};
};

// Steps done since the last logged one.
struct Interval {
  int64_t tokens = 0;  // padding not counted
  double seconds = 0;  // in the steps, evaluations and saves apart
  void add(int64_t step_tokens, double step_seconds) {
    tokens += step_tokens;
    seconds += step_seconds;
  }
  double tokens_per_second() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

struct EvaluationMetrics {
  int64_t step = 0;
  double epoch = 0;
  double eval_loss = 0;     // mean over target tokens, or preferences
  int64_t eval_tokens = 0;  // target tokens
  double eval_seconds = 0;
  // Of answers, else not written: shares from 0 to 1.
  std::optional<double> eval_exact_match = std::nullopt, eval_rouge_l = std::nullopt;
  Scalars more = {};  // as those of steps: "eval_rewards/chosen"
};

// "loss 1.2345 over 1,200 tokens; 45.0 % of the answers exact, ROUGE-L 0.6789".
std::string describe(const EvaluationMetrics& metrics);

class MetricsFile : public Sink {
 public:
  explicit MetricsFile(const std::filesystem::path& path, const LogMark& kept = {}) : Sink(path, kept) {}

  void append(const StepMetrics& metrics) override;
  void append(const EvaluationMetrics& metrics) override;
};

}  // namespace fathom::report
