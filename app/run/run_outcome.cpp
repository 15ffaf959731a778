// Lines for people, from the values of the run.
#include "app/run/run_outcome.h"

#include <array>
#include <cstdio>

#include "base/bytes.h"
#include "base/file_kind.h"
#include "base/numbers.h"
#include "base/output.h"
#include "base/path.h"
#include "config/shards.h"
#include "report/memory_table.h"
#include "report/table.h"
#include "schedule/step_order.h"

namespace fathom::app {
namespace {

// Numbers and words of our own, of at most 160 characters.
template <typename... Values>
void print_line(const char* format, Values... values) {
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), format, values...);
  print(report::folded(line.data()));
}

// The first evaluation, and that of the final weights, each with what it is of; one alone is held against nothing.
void print_evaluations(const train::RunResult& result, const train::EvaluatedStep& first,
                       const train::EvaluatedStep& last) {
  const bool is_best = result.best && result.best->step == result.kept_step;
  const train::EvaluatedStep& kept = is_best ? *result.best : last;
  const auto of = [&](const train::EvaluatedStep& evaluated) -> std::string {
    if (evaluated.step == 0) return "before training";
    if (evaluated.step == result.kept_step) return "of the final weights";
    return "after step " + std::to_string(evaluated.step);
  };
  if (first.step == kept.step) {
    print_line("evaluation loss: %.4f %s\n", kept.loss, of(kept).c_str());
  } else {
    print_line("evaluation loss: %.4f %s -> %.4f %s (%+.1f %%)\n", first.loss, of(first).c_str(), kept.loss,
               of(kept).c_str(), 100 * (kept.loss / first.loss - 1));
  }
  if (kept.step != result.kept_step) {
    print_line("the final weights, of step %ld, were not evaluated\n", result.kept_step);
  }
}

}  // namespace

std::string describe_run(const config::RunConfig& config, const schedule::RunInputs& inputs,
                         const std::optional<checkpoint::Checkpoint>& resume) {
  const schedule::StepOrder order(config, inputs.train);
  std::array<char, 32> epochs{};
  std::snprintf(epochs.data(), epochs.size(), "%.4g",
                static_cast<double>(order.total_steps()) / static_cast<double>(order.steps_per_epoch()));
  std::string text = "Training on " + format_counted(inputs.train.size(), "sample") + ", " +
                     format_counted(order.steps_per_epoch(), "step") +
                     " an epoch: " + format_counted(order.total_steps(), "step") + ", " + epochs.data() + " epoch" +
                     (order.total_steps() == order.steps_per_epoch() ? "" : "s");
  if (config.num_processes > 1) text += ", in " + std::to_string(config.num_processes) + " processes";
  if (config::replicas(config) > 1 && config.strategy == config::Strategy::kFsdp) {
    text += " with " + std::to_string(config::replicas(config)) + " copies of the model";
  }
  if (resume) text += "; " + format_count(resume->step()) + " of them are done";
  return report::folded(text + ".\n");
}

void print_next(const config::RunConfig& config, const schedule::RunInputs& inputs) {
  const bool is_adapter = config.method == config::Method::kLora;
  const std::string output = shell_word(config.output_dir);
  const bool is_evaluated = !config.validation_file.empty() || config.validation_split > 0;
  const std::string evaluate = "fathom eval " + output + (is_evaluated ? "" : " validation_file=FILE");
  std::vector<std::string> commands;
  if (inputs.tokenizer != nullptr) commands.push_back("fathom generate " + output + " --prompt 'TEXT'");
  if (is_adapter && !inputs.architecture.quantized) {
    const std::filesystem::path merged = tidy_path(config.output_dir).string() + "-merged";
    commands.push_back("fathom export " + output + " --merge --out " + shell_word(merged));
  }
  if (commands.size() < 2) commands.push_back(evaluate);
  for (size_t i = 0; i < commands.size(); ++i) print((i == 0 ? "next: " : "      ") + commands[i] + "\n");
}

void print_outcome(const train::RunResult& result, const config::RunConfig& config) {
  if (result.first_evaluation && result.last_evaluation) {
    print_evaluations(result, *result.first_evaluation, *result.last_evaluation);
  }
  if (result.loss_scale) {
    print_line("loss scale: %g at the end; skipped %ld of %ld steps, whose gradients overflowed\n",
               result.loss_scale->value(), result.loss_scale->skipped_steps(), result.steps);
  }
  if (result.stopped_early) print_line("stopped after step %ld: no evaluation was better for too long\n", result.steps);
  if (result.best) {
    print_line("best evaluation: %.4f after step %ld%s\n", result.best->loss, result.best->step,
               result.best->step == result.kept_step ? ", whose weights are the final ones"
                                                     : "; load_best_model_at_end: true would have kept its weights");
  }
  print((config.method == config::Method::kFull ? "model: " : "adapter: ") + config.output_dir + "\n");
}

void print_processes(const plan::Comparison& comparison, const std::optional<ledger::EventComparison>& events,
                     dist::Group& group, bool stopped_early) {
  const memory::Memory &dry_run = comparison.plan.dry_run, &measured = comparison.measured->memory;
  const auto bytes = [](double number) { return static_cast<int64_t>(number); };
  group.meet_after_files();  // the first has written the report
  const std::vector<double> planned_peaks = group.gather(static_cast<double>(dry_run.peak));
  const std::vector<double> peaks = group.gather(static_cast<double>(measured.peak));
  const std::vector<std::string> agreements =
      group.gather(report::describe_agreement(dry_run, measured, stopped_early));
  const std::vector<std::string> described = group.gather(events ? describe(*events) + "\n" : std::string());
  print("\n");
  for (size_t rank = 0; rank < peaks.size(); ++rank) {
    print_line("rank %zu: peak of live bytes %s planned, %s measured, %ld off\n", rank,
               format_bytes(bytes(planned_peaks[rank])).c_str(), format_bytes(bytes(peaks[rank])).c_str(),
               bytes(peaks[rank]) - bytes(planned_peaks[rank]));
    const std::string who = "rank " + std::to_string(rank) + ": ";
    if (agreements[rank] != agreements.front()) print(report::folded(who + agreements[rank]));
    if (!described[rank].empty()) print(report::folded(who + described[rank]));
  }
}

}  // namespace fathom::app
