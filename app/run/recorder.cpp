// Hands what the loop reports to the files and the terminal.
#include "app/run/recorder.h"

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

}  // namespace

Recorder::Recorder(const config::RunConfig& config, const std::optional<checkpoint::Checkpoint>& resume,
                   StepTimes& times, StepProfile& profile)
    : config_(config), times_(times), profile_(profile) {
  train::ObserverState kept;
  if (resume && train::continues_in_place(config, resume)) kept = train::run_state(*resume).observer;
  for (const report::SinkKind& kind : report::sink_kinds()) told_.push_back({kind, mark_in(kept, kind.name), nullptr});
}

train::Observer Recorder::observer() {
  train::Observer observer;
  observer.on_start = [this] { open(); };
  observer.on_step = [this](const train::StepReport& report) { step(report); };
  observer.on_evaluation = [this](const report::EvaluationMetrics& metrics) { evaluation(metrics); };
  observer.on_checkpoint = tell_of_saved;
  observer.state = [this] { return state(); };
  observer.sync = [this] {
    for (const Told& each : told_) {
      if (each.sink) each.sink->sync();
    }
  };
  return observer;
}

void Recorder::open() {
  for (Told& each : told_) {
    if (each.kind.is_wanted(config_.report_to)) each.sink = each.kind.open(config_.output_dir, each.kept);
  }
}

train::ObserverState Recorder::state() const {
  train::ObserverState state;
  for (const Told& each : told_) put_mark(each.sink ? each.sink->mark() : each.kept, each.kind.name, state);
  return state;
}

std::vector<std::string> Recorder::failures() const {
  std::vector<std::string> failures;
  for (const Told& each : told_) {
    if (each.sink) failures.push_back(each.sink->failure());
  }
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
  report::StepMetrics metrics = report.metrics;
  profile_.after_step(metrics.step, report.total_steps);
  times_.add(metrics.step, metrics.step_seconds);
  interval_.add(report.step_tokens, metrics.step_seconds);
  all_.add(report.step_tokens, metrics.step_seconds);
  metrics.tokens_per_second = interval_.tokens_per_second();
  metrics.interval_seconds = interval_.seconds;
  progress_.step({metrics, report.total_steps}, report.step_tokens, metrics.step_seconds, report.logged);
  if (!report.logged) return;
  last_logged_ = {metrics.step, metrics.loss};
  if (first_logged_.step == 0) first_logged_ = last_logged_;
  append(metrics);
  interval_ = {};
}

void Recorder::evaluation(const report::EvaluationMetrics& metrics) {
  append(metrics);
  log_info("evaluation at step " + format_count(metrics.step) + ": " + report::describe(metrics));
}

}  // namespace fathom::app
