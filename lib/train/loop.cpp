// The loop around the training step.
#include "train/loop.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/json_value.h"
#include "base/log.h"
#include "base/seconds_since.h"
#include "base/system_error.h"
#include "checkpoint/adapter.h"
#include "optim/schedule.h"
#include "schedule/base_identity.h"
#include "schedule/schedule.h"
#include "train/agreement.h"
#include "train/interrupt.h"
#include "train/random_state.h"
#include "train/reference.h"
#include "train/resume.h"
#include "train/run_state.h"
#include "train/score.h"
#include "train/settled.h"

namespace fathom::train {
namespace {

using Clock = std::chrono::steady_clock;

class Loop {
 public:
  Loop(const config::RunConfig& config, const schedule::RunInputs& inputs, Trainer& trainer, const Observer& observer)
      : config_(config),
        inputs_(inputs),
        trainer_(trainer),
        observer_(observer),
        order_(config, inputs.train),
        data_fingerprint_(inputs.train.fingerprint()),
        validation_fingerprint_(inputs.validation.fingerprint()),
        base_identity_(schedule::base_identity(config, *inputs.folder)),
        history_(config.early_stopping_patience),
        evaluation_due_(config.eval_on_start),
        best_folder_(config.output_dir),
        checkpoints_(config, checkpoint::files_of(*inputs.folder, trainer.model(), config.model_name_or_path), trainer,
                     {observer.on_checkpoint, observer.sync}) {}

  RunResult run(const std::optional<checkpoint::Checkpoint>& resume);
  // The loop ends after the save that goes on; where others would miss this process before, they hear of the error now.
  void tell_before_it_ends(const std::exception& error) const {
    if (group() == nullptr || checkpoints_.ends_within(std::chrono::seconds(config_.ddp_timeout) / 2)) return;
    log_error(message_of(error) + "; a checkpoint is still being written");
    group()->tell_failure(message_of(error));
  }

 private:
  void load(const std::optional<checkpoint::Checkpoint>& resume);
  void take_step();
  void count_in_window(const StepResult& step);
  void evaluate_and_save();
  void evaluate();
  void save();
  void save_at_last();
  void take_best();
  int signal() const;
  std::function<bool()> stops_within() const;
  dist::Group* group() const { return trainer_.placement().group; }
  // What this process does from now on, where there are others.
  void tell_others(const std::string& activity) const {
    if (group() != nullptr) group()->now(activity);
  }
  void restore_random(const RunState& state);
  bool best_is_elsewhere() const;
  double epoch() const { return static_cast<double>(counters_.step) / static_cast<double>(order_.steps_per_epoch()); }
  RunState state() const;
  void restore(const checkpoint::Checkpoint& resume);
  void restore_evaluations(const checkpoint::Checkpoint& resume, const RunState& state);

  const config::RunConfig& config_;
  const schedule::RunInputs& inputs_;
  Trainer& trainer_;
  const Observer& observer_;
  const Interrupt interrupt_;
  schedule::StepOrder order_;
  const std::string data_fingerprint_, validation_fingerprint_, base_identity_;  // hashed once, not at every save
  Counters counters_;
  EvaluationHistory history_;
  bool evaluation_due_;                // at this step, and not done: a signal came before its end
  bool improved_ = false;              // by the evaluation after this step
  std::filesystem::path best_folder_;  // holds the checkpoint of the best evaluation
  RunResult result_;
  std::optional<Reference> reference_;  // unset: a signal came while it was computed
  RunCheckpoints checkpoints_;
};

void Loop::load(const std::optional<checkpoint::Checkpoint>& resume) {
  tell_others("loading");
  const auto seed = static_cast<uint64_t>(config_.seed);
  model::Decoder& model = trainer_.model();
  config_.random_init ? model.initialise(seed) : model.load(*inputs_.folder, seed);
  if (!config_.adapter_name_or_path.empty() && !resume) {
    checkpoint::load_adapter(config_.adapter_name_or_path, model);
  }
  at::manual_seed(seed + static_cast<uint64_t>(trainer_.placement().rank()));
  if (resume) restore(*resume);
  result_.memory.merge(trainer_.loaded());
  if (group() == nullptr) return;
  group()->meet_after_files();
  group()->wait_at_most(std::chrono::seconds(config_.ddp_timeout));
}

void Loop::count_in_window(const StepResult& step) {
  counters_.window_steps += 1;
  if (!std::isfinite(step.loss)) return;  // of a step that was skipped
  counters_.add(step.counted, step.loss, step.router_loss, step.numbers);
  if (!step.skipped && config_.max_grad_norm > 0 && step.gradient_norm > config_.max_grad_norm) {
    ++counters_.window_clipped;
  }
}

void Loop::take_step() {
  const Clock::time_point start = Clock::now();
  tell_others("step " + std::to_string(counters_.step + 1));
  std::vector<data::Batch> batches;
  for (const std::vector<int64_t>& rows : schedule::share_of(config_, trainer_.placement().rank(), order_.next())) {
    batches.push_back(batch_beside(reference_->train, config_, inputs_.train, rows, schedule::padding_id(inputs_)));
  }
  // A step that is skipped does not move the schedule, as in transformers.
  const double rate =
      config_.learning_rate * optim::schedule_factor(config_.lr_scheduler_type, trainer_.optimizer().steps(),
                                                     order_.total_steps(), config_.warmup_steps);
  StepResult step;
  try {
    step = trainer_.step(batches, rate, [this] { checkpoints_.wait_until_read(); });
  } catch (const LostOthers&) {
    throw;
  } catch (const Error& error) {
    throw Error("step " + std::to_string(counters_.step + 1) + ": " + error.what());
  }
  result_.memory.merge(step.memory);
  counters_.step += 1;
  counters_.tokens += step.token_count;
  counters_.peak_bytes = std::max(counters_.peak_bytes, result_.memory.peak);
  count_in_window(step);
  const bool last = counters_.step == order_.total_steps();
  const bool logged = last || counters_.step % config_.logging_steps == 0;
  if (observer_.on_step) {
    report::StepMetrics metrics{counters_.step,
                                epoch(),
                                counters_.window_mean(counters_.window_loss),
                                rate,
                                step.gradient_norm,
                                counters_.clipped_share(),
                                counters_.tokens};
    metrics.step_seconds = seconds_since(start);
    metrics.live_bytes = trainer_.placement().ledger->live_bytes();
    metrics.peak_bytes = counters_.peak_bytes;
    metrics.more = trainer_.evaluator().named(counters_.window_means());
    if (const auto scale = trainer_.loss_scale()) {
      metrics.more.emplace_back(report::kLossScale, scale->value());
      metrics.more.emplace_back(report::kSkippedSteps, scale->skipped_steps());
    }
    if (inputs_.architecture.router_aux_loss_coef > 0) {
      metrics.more.emplace_back("router_loss", counters_.window_mean(counters_.window_router_loss));
    }
    observer_.on_step({std::move(metrics), order_.total_steps(), step.token_count, logged});
  }
  if (logged) counters_.begin_window();
}

void Loop::evaluate() {
  const Clock::time_point start = Clock::now();
  const std::vector<std::vector<int64_t>> rows = schedule::evaluation_rows(config_, inputs_.validation);
  const auto batch_at = [&](int64_t index) {
    return batch_beside(reference_->validation, config_, inputs_.validation, rows[static_cast<size_t>(index)],
                        schedule::padding_id(inputs_));
  };
  tell_others("the evaluation after step " + std::to_string(counters_.step));
  const std::function<bool()> stop = stops_within();
  const Evaluation evaluation = trainer_.evaluate(std::ssize(rows), batch_at, stop);
  result_.memory.merge(evaluation.memory);
  if (!evaluation.complete) return;
  std::optional<double> exact_match, rouge_l;
  if (config_.predict_with_generate) {
    const ScoredAnswers scored = score_answers(config_, inputs_, trainer_.evaluator(), stop);
    result_.memory.merge(scored.memory);
    if (!scored.complete) return;
    exact_match = scored.scores.exact_match();
    rouge_l = scored.scores.rouge_l();
  }
  if (!std::isfinite(evaluation.loss))
    trainer_.require_finite_weights("after step " + std::to_string(counters_.step) + " ");
  evaluation_due_ = false;
  result_.last_evaluation = {counters_.step, evaluation.loss};
  if (!result_.first_evaluation) result_.first_evaluation = result_.last_evaluation;
  // As in transformers, the evaluation before the first step is no candidate.
  improved_ = counters_.step > 0 && history_.add(counters_.step, evaluation.loss);
  if (improved_) best_folder_ = config_.output_dir;
  if (!std::isfinite(evaluation.loss)) {
    log_warning("the loss of the evaluation after step " + std::to_string(counters_.step) +
                " is not finite: it counts as no improvement");
  }
  if (observer_.on_evaluation) {
    observer_.on_evaluation({counters_.step, epoch(), evaluation.loss, evaluation.target_count, seconds_since(start),
                             exact_match, rouge_l, trainer_.evaluator().named(evaluation)});
  }
}

// That asked the run to stop. Of several processes, any of which a signal may reach first: each asks at the same
// places, and all stop at one.
int Loop::signal() const { return largest_of_all(group(), interrupt_.signal()); }

// Several processes end an evaluation together, after it.
std::function<bool()> Loop::stops_within() const {
  if (group() != nullptr) return nullptr;
  return [this] { return interrupt_.signal() != 0; };
}

bool Loop::best_is_elsewhere() const {
  std::error_code absent;
  return best_folder_ != config_.output_dir && !std::filesystem::equivalent(best_folder_, config_.output_dir, absent);
}

RunState Loop::state() const {
  RunState state;
  state.config = steps_identity(config_);
  state.base = base_identity_;
  state.data = data_fingerprint_;
  state.validation = validation_fingerprint_;
  state.reference = reference_->digest;
  state.date = inputs_.date;
  state.counters = counters_;
  state.counters.peak_bytes = std::max(counters_.peak_bytes, result_.memory.peak);
  state.optimizer_steps = trainer_.optimizer().steps();
  state.position = order_.position();
  state.evaluations = history_;
  state.evaluation_due = evaluation_due_;
  const bool elsewhere = best_is_elsewhere();
  if (config_.load_best_model_at_end && history_.best() && !elsewhere) state.best_step = history_.best()->step;
  if (elsewhere) state.best_folder = std::filesystem::absolute(best_folder_).string();
  state.first_evaluation = result_.first_evaluation;
  state.loss_scale = trainer_.loss_scale();
  state.random = random_state(trainer_.placement().device);
  if (group() != nullptr) {
    const std::vector<std::string> of_ranks = group()->gather(state.random.dump());
    state.random = Json::parse(of_ranks.front());
    for (size_t rank = 1; rank < of_ranks.size(); ++rank) {
      state.random_of_others.push_back(Json::parse(of_ranks[rank]));
    }
  }
  state.threads = at::get_num_threads();
  if (observer_.state) state.observer = observer_.state();
  return state;
}

void Loop::save() {
  tell_others("saving after step " + std::to_string(counters_.step));
  result_.memory.merge(checkpoints_.save(counters_.step, [this] { return to_json(state()); }));
}

// The checkpoint that a signal asks for. A write that fails once may succeed the second time.
void Loop::save_at_last() {
  const auto is_saved = [&] {
    checkpoints_.finish();
    return as_first_finds(group(), checkpoints_.newest_step() == counters_.step);
  };
  for (int times = 2; times > 0 && !is_saved(); --times) save();
  if (!is_saved() && trainer_.placement().is_first()) throw Error(checkpoints_.failures().back());
}

void Loop::restore(const checkpoint::Checkpoint& resume) {
  const RunState state = run_state(resume);
  resume.copy_into(trainer_.parameters(), trainer_.states());
  counters_ = state.counters;
  evaluation_due_ = start_of(config_, inputs_, resume).evaluation_due;
  result_.first_evaluation = state.first_evaluation;
  restore_evaluations(resume, state);
  order_.seek(state.position);
  trainer_.optimizer().set_steps(state.optimizer_steps);
  if (state.loss_scale) trainer_.set_loss_scale(*state.loss_scale);
  restore_random(state);
  if (trainer_.placement().device.is_cpu() && state.threads != at::get_num_threads()) {
    log_warning("the checkpoint was saved with " + std::to_string(state.threads) + " threads and this run has " +
                std::to_string(at::get_num_threads()) + ": the results will not be bit-identical");
  }
}

// Another number of processes draws other numbers: from seeds that no run has drawn from before this step.
void Loop::restore_random(const RunState& state) {
  const int64_t rank = trainer_.placement().rank();
  if (trainer_.placement().processes() != std::ssize(state.random_of_others) + 1) {
    at::manual_seed(static_cast<uint64_t>(config_.seed) + (static_cast<uint64_t>(counters_.step) << 20) +
                    static_cast<uint64_t>(rank));
    return;
  }
  restore_random_state(trainer_.placement().device,
                       rank == 0 ? state.random : state.random_of_others[static_cast<size_t>(rank) - 1]);
}

void Loop::restore_evaluations(const checkpoint::Checkpoint& resume, const RunState& state) {
  history_ = EvaluationHistory(config_.early_stopping_patience, state.evaluations);
  if (history_.best() && !inputs_.validation.empty() && !state.validation.empty() &&
      state.validation != validation_fingerprint_) {
    log_warning("the validation data are not those of " + resume.folder().string() +
                ": losses before and after do not compare, and the best evaluation from here on counts");
    history_.forget();
    result_.first_evaluation.reset();
  }
  best_folder_ = state.best_folder.empty() ? resume.folder().parent_path() : std::filesystem::path(state.best_folder);
  if (!config_.load_best_model_at_end || !history_.best()) return;
  const bool exists = std::filesystem::exists(checkpoint::folder_of(best_folder_, history_.best()->step));
  if (as_first_finds(group(), exists)) return;
  log_warning("the best evaluation so far, after step " + std::to_string(history_.best()->step) +
              ", has no checkpoint in " + best_folder_.string() + ": the best from here on counts");
  history_.forget();
}

// The weights of the best evaluation, where they are not those of the last step. Where they cannot be had, those of the
// last step stay: better than no model. Of several processes that share one, all take them or none does.
void Loop::take_best() {
  result_.best = history_.best();
  result_.kept_step = counters_.step;
  if (!config_.load_best_model_at_end || !result_.best || result_.best->step == counters_.step) return;
  std::optional<RanksThatRead> sharers;
  if (trainer_.holds_shares()) sharers.emplace(*group());
  std::optional<checkpoint::Checkpoint> best;
  try {
    best = checkpoint_of(best_folder_, *result_.best, sharers ? &*sharers : nullptr);
    best->copy_into(trainer_.parameters());
  } catch (const LostOthers&) {
    throw;
  } catch (const Error& error) {
    result_.best_is_lost = error.what();
    return;
  }
  result_.kept_step = result_.best->step;
}

// What is due between two steps.
void Loop::evaluate_and_save() {
  improved_ = false;
  if (evaluation_due_ && signal() == 0) evaluate();
  if (counters_.step == 0) return;
  if (schedule::saves_after(config_, order_, counters_.step) || (improved_ && config_.load_best_model_at_end)) save();
}

RunResult Loop::run(const std::optional<checkpoint::Checkpoint>& resume) {
  load(resume);
  const bool in_place = resume && continues_in_place(config_, resume);
  checkpoints_.prepare(schedule::saves_to_come(config_, order_, counters_.step),
                       in_place ? std::optional(counters_.step) : std::nullopt);
  if (observer_.on_start) observer_.on_start();
  reference_ = reference_of_run(config_, inputs_, trainer_, resume, stops_within(), result_.memory);
  if (evaluation_due_) evaluate_and_save();
  while (counters_.step < order_.total_steps() && !history_.out_of_patience() && signal() == 0) {
    take_step();
    checkpoints_.report_finished();
    evaluation_due_ = schedule::evaluates_after(config_, order_, counters_.step);
    evaluate_and_save();
  }
  result_.steps = counters_.step;
  result_.loss_scale = trainer_.loss_scale();
  result_.offloaded = trainer_.host_bytes();
  result_.phase_seconds = trainer_.phase_seconds();
  result_.stopped_early = history_.out_of_patience() && counters_.step < order_.total_steps();
  result_.signal = signal();
  checkpoints_.finish();
  result_.nothing_saved = !reference_;
  if (result_.signal != 0) {
    if (reference_) save_at_last();
  } else {
    require_settled(config_, trainer_, counters_.step);
    if (trainer_.placement().is_first() || trainer_.holds_shares()) take_best();
    result_.memory.merge(checkpoints_.write_model());
  }
  result_.failures = checkpoints_.failures();
  return result_;
}

}  // namespace

RunResult run(const config::RunConfig& config, const schedule::RunInputs& inputs, Trainer& trainer,
              const std::optional<checkpoint::Checkpoint>& resume, const Observer& observer) {
  Loop loop(config, inputs, trainer, observer);
  try {
    return loop.run(resume);
  } catch (const LostOthers&) {
    throw;
  } catch (const std::exception& error) {
    loop.tell_before_it_ends(error);
    throw;
  }
}

}  // namespace fathom::train
