// A whole run: every step, with logging, evaluation, checkpoints and an orderly stop.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "report/metrics.h"
#include "schedule/inputs.h"
#include "schedule/steps.h"
#include "train/best.h"
#include "train/resume.h"
#include "train/run_checkpoints.h"
#include "train/run_state.h"
#include "train/trainer.h"

namespace fathom::train {

struct StepReport {
  report::StepMetrics metrics;  // but tokens_per_second and interval_seconds, which are for who sums them up
  int64_t total_steps = 0;
  int64_t step_tokens = 0;  // of this step, without padding
  bool logged = false;      // a step of the logging cadence, or the last one
};

// What the caller wants to hear of; any may be empty.
struct Observer {
  // All is loaded, and what is called below may be: opens the files that it writes. What throws here ends the run
  // before its first step; what fails in the calls below is the caller's to keep.
  std::function<void()> on_start;
  std::function<void(const StepReport&)> on_step;
  std::function<void(const report::EvaluationMetrics&)> on_evaluation;
  std::function<void(const CheckpointReport&)> on_checkpoint;
  // What a checkpoint should keep for the observer, and gives back in its RunState.
  std::function<ObserverState()> state;
  // Puts the files that `state` speaks of on the disk: called before a checkpoint with it is whole, by the thread that
  // writes it.
  std::function<void()> sync;
};

struct RunResult {
  memory::Memory memory;  // of load, and of the steps, evaluations and saves of this process
  int64_t steps = 0;      // done in all
  std::optional<EvaluatedStep> first_evaluation, last_evaluation;
  std::optional<EvaluatedStep> best;           // of all after the first step
  plan::StepParts<double> phase_seconds;       // see Trainer::phase_seconds
  int64_t offloaded = 0;                       // bytes, pinned in the host's memory
  int64_t kept_step = 0;                       // after which the weights were as the final ones are
  std::optional<optim::LossScale> loss_scale;  // at the end, where products are in FP16
  // Why the final weights are those of the last step although load_best_model_at_end asked for the best; else empty.
  std::string best_is_lost;
  std::vector<std::string> failures;  // of checkpoints that could not be saved, and of a model at the first attempt
  bool stopped_early = false;         // because no evaluation was better for too long
  int signal = 0;                     // that stopped the run, after a checkpoint was saved; 0: it ended
  bool nothing_saved = false;         // that signal came while the reference was computed: there is no checkpoint
};

// Loads weights (and a checkpoint over them) into the trainer and runs to the end or to a signal. Writes checkpoints
// and, at the end, the model or adapter into config.output_dir: the last one, or the one of the best evaluation where
// the config asks for it, for which a checkpoint is saved as soon as it appears.
RunResult run(const config::RunConfig& config, const schedule::RunInputs& inputs, Trainer& trainer,
              const std::optional<checkpoint::Checkpoint>& resume, const Observer& observer);

}  // namespace fathom::train
