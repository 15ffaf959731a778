// Hands what the loop reports to the files and the terminal.
#include "app/recorder.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/log.h"
#include "base/numbers.h"

namespace fathom::app {
namespace {

void tell_of_saved(const train::CheckpointReport& report) {
  // The writer's clock begins when what it writes has been handed over.
  const double whole = std::max(report.seconds, report.waited_seconds);
  log_info("saved " + report.folder.string() + " in " + format_seconds(whole) + ", of which training waited " +
           format_seconds(report.waited_seconds));
}

// Of one log in a checkpoint's state, by the names of its two numbers there.
report::LogMark mark_in(const train::ObserverState& state, const std::string& log) {
  report::LogMark mark;
  if (const auto bytes = state.find(log + "_bytes"); bytes != state.end()) mark.bytes = bytes->second;
  if (const auto check = state.find(log + "_check"); check != state.end()) {
    mark.check = static_cast<uint32_t>(check->second);
  }
  return mark;
}

void put_mark(const report::LogMark& mark, const std::string& log, train::ObserverState& state) {
  state[log + "_bytes"] = mark.bytes;
  if (mark.check) state[log + "_check"] = *mark.check;
}

constexpr const char *kMetrics = "metrics", *kEvents = "event";

}  // namespace

Recorder::Recorder(const config::RunConfig& config, const std::optional<checkpoint::Checkpoint>& resume,
                   StepTimes& times, StepProfile& profile)
    : folder_(config.output_dir),
      for_tensorboard_(config.report_to == config::ReportTo::kTensorBoard),
      times_(times),
      profile_(profile) {
  if (!resume || !train::continues_in_place(config, resume)) return;
  const train::ObserverState kept = train::run_state(*resume).observer;
  kept_metrics_ = mark_in(kept, kMetrics);
  kept_events_ = mark_in(kept, kEvents);
}

train::Observer Recorder::observer() {
  train::Observer observer;
  observer.on_start = [this] { open(); };
  observer.on_step = [this](const train::StepReport& report) { step(report); };
  observer.on_evaluation = [this](const train::EvaluationReport& report) { evaluation(report); };
  observer.on_checkpoint = tell_of_saved;
  observer.state = [this] { return state(); };
  observer.sync = [this] {
    if (metrics_) metrics_->sync();
    if (events_) events_->sync();
  };
  return observer;
}

void Recorder::open() {
  metrics_.emplace(folder_ / "metrics.jsonl", kept_metrics_);
  if (for_tensorboard_) events_.emplace(folder_, kept_events_);
}

train::ObserverState Recorder::state() const {
  train::ObserverState state;
  put_mark(metrics_ ? metrics_->mark() : kept_metrics_, kMetrics, state);
  put_mark(events_ ? events_->mark() : kept_events_, kEvents, state);
  return state;
}

std::vector<std::string> Recorder::failures() const {
  std::vector<std::string> failures;
  if (metrics_) failures.push_back(metrics_->failure());
  if (events_) failures.push_back(events_->failure());
  failures.push_back(profile_.failure());
  std::erase(failures, "");
  return failures;
}

std::string Recorder::summary() const {
  if (all_.seconds <= 0) return "";
  std::string losses;
  if (first_logged_.step < last_logged_.step) {
    losses = "training loss: " + format_decimal(first_logged_.loss, 4) + " until step " +
             format_count(first_logged_.step) + " -> " + format_decimal(last_logged_.loss, 4) + " until step " +
             format_count(last_logged_.step) + "\n";
  }
  return losses + "throughput: " + format_count(std::llround(all_.tokens_per_second())) + " tokens a second, " +
         format_count(all_.tokens) + " in " + format_seconds(all_.seconds) + " of steps\n";
}

void Recorder::step(const train::StepReport& report) {
  profile_.after_step(report.step, report.total_steps);
  times_.add(report.step, report.seconds);
  interval_.add(report.step_tokens, report.seconds);
  all_.add(report.step_tokens, report.seconds);
  report::Progress progress;
  progress.step = report.step;
  progress.total_steps = report.total_steps;
  progress.loss = report.loss;
  progress.learning_rate = report.learning_rate;
  progress.live_bytes = report.live_bytes;
  progress.peak_bytes = report.peak_bytes;
  if (report.loss_scale) {
    progress.loss_scale = report.loss_scale->value();
    progress.skipped_steps = report.loss_scale->skipped_steps();
  }
  if (report.logged) progress.tokens_per_second = interval_.tokens_per_second();
  progress_.step(progress, report.step_tokens, report.seconds, report.logged);
  if (!report.logged) return;
  last_logged_ = {report.step, report.loss};
  if (first_logged_.step == 0) first_logged_ = last_logged_;
  if (events_) {
    report::Scalars scalars = {{"train/loss", report.loss},
                               {"train/learning_rate", report.learning_rate},
                               {"train/grad_norm", report.gradient_norm},
                               {"train/clipped_share", report.clipped_share},
                               {"train/epoch", report.epoch},
                               {"train/tokens_per_second", interval_.tokens_per_second()},
                               {"memory/live_bytes", static_cast<double>(report.live_bytes)},
                               {"memory/peak_bytes", static_cast<double>(report.peak_bytes)}};
    if (progress.loss_scale) {
      scalars.emplace_back("train/loss_scale", *progress.loss_scale);
      scalars.emplace_back("train/skipped_steps", static_cast<double>(progress.skipped_steps));
    }
    if (report.router_loss) scalars.emplace_back("train/router_loss", *report.router_loss);
    events_->append(report.step, scalars);
  }
  metrics_->append(report::StepMetrics{
      report.step, report.epoch, report.loss, report.learning_rate, report.gradient_norm, report.clipped_share,
      report.total_tokens, interval_.tokens_per_second(), interval_.seconds, report.seconds, report.live_bytes,
      report.peak_bytes, progress.loss_scale, progress.skipped_steps, report.router_loss});
  interval_ = {};
}

void Recorder::evaluation(const train::EvaluationReport& report) {
  const report::EvaluationMetrics line{report.step,    report.epoch,       report.loss,   report.tokens,
                                       report.seconds, report.exact_match, report.rouge_l};
  if (events_) events_->append(report.step, report::scalars_of(line));
  metrics_->append(line);
  log_info("evaluation at step " + format_count(report.step) + ": " + report::describe(line));
}

}  // namespace fathom::app
