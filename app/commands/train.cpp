// `fathom train`: plan, run, and set what was measured beside what was predicted.
#include "app/commands/train.h"

#include <chrono>
#include <cstdlib>
#include <functional>

#include "app/engine.h"
#include "app/exit_status.h"
#include "app/machine.h"
#include "app/run/out_of_memory.h"
#include "app/run/planning.h"
#include "app/run/recorder.h"
#include "app/run/run_folder.h"
#include "app/run/run_outcome.h"
#include "app/run/run_report.h"
#include "app/run/session.h"
#include "app/run/step_profile.h"
#include "app/run/step_times.h"
#include "app/run/strategy.h"
#include "app/run/together.h"
#include "app/run/traces.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "base/log.h"
#include "base/output.h"
#include "base/seconds_since.h"
#include "base/system_error.h"
#include "ledger/out_of_memory.h"
#include "plan/advice/remedies.h"
#include "plan/counted.h"
#include "plan/estimate/workload.h"
#include "play/attention_curve.h"
#include "report/derivation.h"
#include "report/memory_json.h"
#include "report/memory_table.h"
#include "report/table.h"
#include "train/agreement.h"
#include "train/inputs.h"
#include "train/loop.h"

namespace fathom::app {
namespace {

plan::Measured measured_of(const train::RunResult& result, const Session& session, int64_t resident_before) {
  plan::Measured measured;
  measured.memory = result.memory;
  measured.timeline = session.placement.ledger->peak_timeline();
  if (ledger::CudaDevice* cuda = session.placement.cuda) {
    const ledger::CudaDevice::Statistics statistics = cuda->statistics();
    measured.allocated = statistics.peak_allocated;
    measured.reserved = statistics.peak_reserved;
    measured.offloaded = result.offloaded;
    // Of the driver's used bytes now, with what was reserved at the peak instead of now.
    measured.device_growth = cuda->total_bytes() - cuda->free_bytes() - statistics.reserved + statistics.peak_reserved;
  } else {
    measured.resident_growth = peak_resident_bytes() - resident_before;
  }
  return measured;
}

// After running out of memory. Others may wait to hear of it: no file is verified.
std::string what_to_do_now(const arch::Run& run, const plan::Plan& plan) {
  std::string text = plan::describe_remedies(plan::remedies(run, plan.target, plan.workload));
  if (!text.empty()) text = "What helps most:\n" + text;
  if (const auto checkpoint = checkpoint::newest_folder(run.config.output_dir)) {
    text += checkpoint->string() + " was saved; resume_from_checkpoint: auto continues from the newest that is whole.";
  }
  return text;
}

// memory.json: what was planned and measured, and attention over lengths, where there is hardware to measure it on and
// no trace is written, which is the run's alone.
Json memory_of(const plan::Comparison& comparison, const Invocation& invocation, const arch::Run& run,
               const Session& session, const report::StepTimes& times) {
  const play::AttentionLimits limits{.seconds = 0.1, .bytes = available_memory_bytes() / 4};
  Json memory = report::memory_json(comparison);
  memory["time"] = report::step_times_json(times);
  if (!session.phantom && invocation.trace.empty()) {
    memory["attention"] = to_json(play::attention_curve(run, session.placement, limits));
  }
  return memory;
}

train::RunResult train_on(const arch::Run& run, const schedule::RunInputs& inputs, const Session& session,
                          const plan::Plan& plan, const std::optional<checkpoint::Checkpoint>& resume,
                          const train::Observer& observer) {
  try {
    train::Trainer trainer(run, {plan.workload.capacity_tokens, plan.workload.capacity_source_tokens},
                           session.placement);
    trainer.model().reserve_positions(plan::longest_sequence(plan.workload));
    return train::run(run.config, inputs, trainer, resume, observer);
  } catch (const c10::Error& error) {
    if (!ledger::is_out_of_memory(error)) throw Error("LibTorch: " + message_of(error));
    throw explain_out_of_memory(error, *session.placement.ledger, what_to_do_now(run, plan));
  }
}

// The model is there by now: a report that cannot be written is one more of what the run could not write.
void report_or_keep(const std::function<void()>& write, std::vector<std::string>& failures) {
  try {
    write();
  } catch (const std::exception& error) {
    failures.push_back("the report could not be written: " + message_of(error));
  }
}

// Tells again, where it is not overlooked, what could not be written on the way. Returns the exit status.
int tell_failures(const std::vector<std::string>& failures) {
  for (const std::string& failure : failures) log_error(failure);
  return failures.empty() ? kSuccess : kFailure;
}

// So that the page of a run that failed says so. What failed first is told, whatever becomes of this.
void record_failure(const Invocation& invocation, const arch::Run& run, const plan::Plan& plan, double seconds,
                    const std::exception& error) {
  const std::string message = message_of(error);
  try {
    write_run_report(run, invocation.command_line, {plan, std::nullopt}, report::memory_json({plan, std::nullopt}),
                     RunEnd{seconds, std::nullopt, message.substr(0, message.find('\n'))});
  } catch (const std::exception&) {
  }
}

// The config as the user has given it: another machine, which goes on or evaluates, chooses kernels for itself.
config::RunConfig as_given(config::RunConfig config, const Invocation& invocation) {
  if (invocation.chose_kernels) config.cuda_kernels.reset();
  return config;
}

// ---- `train`, in five acts: open, plan, refuse, run, tell.

// What is read before the run is planned.
struct Opened {
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
  schedule::RunInputs inputs;
  config::RunConfig config;
  std::optional<checkpoint::Checkpoint> resume;
  schedule::Start start;               // of the steps that are left
  int64_t resident_before = 0;         // bytes of this process
  bool goes_on_in_its_folder = false;  // a resumed run
};

// The settings are those of the invocation, but that a phantom, whose losses are none, plays every step, and that a
// step stays as large as those of the checkpoint where no words say how large it is.
Opened open(const Train& invocation, const Session& session) {
  Opened opened;
  if (session.placement.is_first()) refuse_taken_folder(invocation.config, invocation.phantom_gpu.has_value());
  dist::Group* const group = session.group.get();
  if (group != nullptr) require_same_config(*group, invocation.config);
  opened.inputs = train::open_inputs(invocation.config);
  opened.config = invocation.config;
  if (invocation.phantom_gpu) opened.config.early_stopping_patience = 0;
  std::optional<train::RanksThatRead> ranks;
  if (group != nullptr) ranks.emplace(*group);
  weights::Readers* const readers = ranks ? &*ranks : nullptr;
  opened.resume = invocation.own_accumulation
                      ? train::find_resume(opened.config, opened.inputs, session.phantom, readers)
                      : train::find_resume_of_any_number(opened.config, opened.inputs, session.phantom, readers);
  if (group != nullptr) require_same_run(*group, opened.inputs, opened.resume);
  if (opened.resume) log_info("resuming from " + opened.resume->folder().string());
  opened.resident_before = resident_bytes();
  opened.start = train::start_of(opened.config, opened.inputs, opened.resume);
  opened.goes_on_in_its_folder = train::continues_in_place(opened.config, opened.resume);
  return opened;
}

// The run as it is planned, which leaves out evaluations that it ends before, and as it runs.
struct PlannedRun {
  Planned planned;
  arch::Run run;
  const plan::Plan& plan() const { return planned.plan; }
};

PlannedRun plan(const Train& invocation, const Session& session, const Opened& opened) {
  if (session.group != nullptr) session.group->now("planning");
  Planned planned = plan_with_strategy(
      planned_run(opened.config, opened.inputs, session), session.group.get(),
      [&](const arch::Run& each) { return plan_of(each, opened.inputs, opened.start, session, invocation); });
  arch::Run run = arch::resolve(with_strategy(opened.config, planned.run.config.strategy), opened.inputs.architecture);
  print(report::format_plan(planned.plan));
  return {std::move(planned), std::move(run)};
}

void refuse(const Train& invocation, const Session& session, const PlannedRun& planned) {
  refuse_what_cannot_fit(planned.plan(), planned.run, invocation.force);
  if (!session.phantom) refuse_what_the_host_cannot_hold(planned.plan(), invocation.force);
}

// What became of the run, and whatever of it could not be written.
struct Ran {
  Descriptor folder;  // which is this run's while it is open: until all is told
  train::RunResult result;
  plan::Comparison comparison;
  report::StepTimes took;
  std::string summary;  // of what was recorded
  std::vector<std::string> failures;
};

Ran run(const Train& invocation, const Session& session, const Opened& opened, const PlannedRun& planned,
        StepProfile& profile) {
  const bool writes = session.placement.is_first();
  const arch::Run& run = planned.run;
  const plan::Plan& plan = planned.plan();
  Ran ran;
  if (writes) {
    ran.folder = prepare_run_folder(as_given(run.config, invocation), opened.goes_on_in_its_folder, session.phantom);
    write_run_report(run, invocation.command_line, {plan, std::nullopt}, report::memory_json({plan, std::nullopt}));
  }
  StepTimes times(run, opened.inputs, session, plan);
  print(describe_run(run.config, opened.inputs, opened.resume) + report::folded(times.forecast()));
  Recorder recorder(run.config, opened.resume, times, profile);
  keep_within_budget(plan.gpu ? plan.gpu->limit : run.config.memory_budget, session);
  if (session.placement.cuda != nullptr) session.placement.cuda->reset_peaks();
  try {
    ran.result =
        train_on(run, opened.inputs, session, plan, opened.resume, writes ? recorder.observer() : train::Observer());
  } catch (const std::exception& error) {
    if (writes) record_failure(invocation, run, plan, seconds_since(opened.since), error);
    throw;
  }
  ran.comparison = {plan, measured_of(ran.result, session, opened.resident_before)};
  if (const std::string why = plan::why_uncounted(*ran.comparison.measured); !why.empty()) ran.failures.push_back(why);
  if (!writes) return ran;
  for (const std::vector<std::string>& each : {recorder.failures(), ran.result.failures}) {
    ran.failures.insert(ran.failures.end(), each.begin(), each.end());
  }
  ran.took = times.sums(ran.result.phase_seconds);
  ran.summary = recorder.summary();
  return ran;
}

// Of a run that a signal stopped.
int tell_of_signal(const Train& invocation, const Opened& opened, const PlannedRun& planned, Ran& ran) {
  report_or_keep(
      [&] {
        write_run_report(planned.run, invocation.command_line, ran.comparison, report::memory_json(ran.comparison),
                         RunEnd{seconds_since(opened.since), std::nullopt});
      },
      ran.failures);
  const std::string go_on = " resume_from_checkpoint=auto", &command = invocation.command_line;
  const std::string when = ran.result.nothing_saved
                               ? "while the reference was computed, and nothing was saved; begin anew with: "
                               : "after step " + format_count(ran.result.steps) + "; go on with: ";
  log_info("stopped by a signal " + when + command + (command.find(go_on) == std::string::npos ? go_on : ""));
  tell_failures(ran.failures);
  return 128 + ran.result.signal;
}

// What was measured beside what was planned, and how the run went.
void print_what_was_measured(const Session& session, const Opened& opened, const PlannedEvents& events, const Ran& ran,
                             bool any_steps) {
  const train::RunResult& result = ran.result;
  if (!any_steps) {
    print(report::folded(opened.resume->folder().string() +
                         " is of the last step: none was left to run, and nothing to measure\n"));
  } else {
    print(report::format_memory(ran.comparison, result.stopped_early) + "\n" +
          report::format_rules(ran.comparison, /*all=*/false) + "\n");
  }
  if (session.group != nullptr) {
    print_processes(ran.comparison, events.compare(result), *session.group, result.stopped_early);
  } else if (const auto compared = events.compare(result)) {
    print(report::folded(describe(*compared) + "\n"));
  }
}

// Returns the exit status.
int tell(const Train& invocation, const Session& session, const Opened& opened, const PlannedRun& planned,
         const PlannedEvents& events, const EarlierReport& earlier, Ran ran) {
  const train::RunResult& result = ran.result;
  const config::RunConfig& config = planned.run.config;
  if (!session.placement.is_first()) {
    if (result.signal != 0) return 128 + result.signal;
    print_processes(ran.comparison, events.compare(result), *session.group, result.stopped_early);
    return tell_failures(ran.failures);
  }
  if (result.signal != 0) return tell_of_signal(invocation, opened, planned, ran);
  const bool any_steps = !opened.resume || opened.resume->step() < result.steps;
  report_or_keep(
      [&] {
        if (!any_steps && earlier.exists()) return earlier.put_back();
        write_run_report(planned.run, invocation.command_line, ran.comparison,
                         memory_of(ran.comparison, invocation, planned.run, session, ran.took),
                         RunEnd{seconds_since(opened.since), result.kept_step});
      },
      ran.failures);
  print_what_was_measured(session, opened, events, ran, any_steps);
  if (!session.phantom) {  // a phantom's losses and times are none
    print(report::format_step_times(ran.took) + ran.summary);
    print_outcome(result, config);
  }
  print("report: " + (std::filesystem::path(config.output_dir) / "report.html").string() + "\n");
  if (session.phantom) {
    print("A phantom run: played on a GPU that is not there; no number in the weights of " + config.output_dir +
          " is real.\n");
  } else {
    print_next(config, opened.inputs);
  }
  if (!result.best_is_lost.empty()) {
    ran.failures.push_back("the final weights are those of the last step, " + std::to_string(result.steps) +
                           ", not the best: its checkpoint cannot be taken: " + result.best_is_lost);
  }
  return tell_failures(ran.failures);
}

int train(const Train& invocation, const Session& session) {
  StepProfile profile(invocation.profile, session.placement.cuda != nullptr && !session.phantom);
  const Opened opened = open(invocation, session);
  const PlannedRun planned = plan(invocation, session, opened);
  refuse(invocation, session, planned);
  const PlannedEvents events(planned.planned.run, opened.inputs, opened.start, session, invocation);
  if (session.group != nullptr) session.group->meet();  // all have looked at the folder as it was
  const bool keeps_report = opened.goes_on_in_its_folder && session.placement.is_first();
  const EarlierReport earlier(keeps_report ? planned.run.config.output_dir : "");
  Ran ran = run(invocation, session, opened, planned, profile);
  return tell(invocation, session, opened, planned, events, earlier, std::move(ran));
}

// That a rank may take, by its machine's start and what it reads, until training runs.
constexpr std::chrono::minutes kForStart{30};

// One of several processes: its others hear why it ends, and nothing waits for them then.
int train_together(const Train& invocation, Session session) {
  const config::RunConfig& config = invocation.config;
  speak_as(*invocation.processes);  // the engine's own stdout and stderr
  session.group = dist::join(*invocation.processes, kForStart);
  try {
    prove_kernels(invocation, session);
    require_same_devices(session);
    session.placement.group = session.group.get();
    if (session.placement.cuda != nullptr) exchange_over_nccl(session, std::chrono::seconds(config.ddp_timeout));
    const int status = train(invocation, session);
    session.group->meet();
    return status;
  } catch (const LostOthers& error) {
    std::_Exit(report_failure(error));
  } catch (const std::exception& error) {
    // What all have found the first tells, a config's fault among it; what one has found it tells before others hear.
    const std::string message = message_of(error);
    const int status = session.group->first_tells(message) ? status_of(error) : report_failure(error);
    session.group->tell_failure(message);
    std::_Exit(status);
  }
}

int run_train(const Train& invocation) {
  Session session = open_session(invocation, invocation.processes ? invocation.processes->local_size : 0);
  if (!invocation.processes && invocation.config.num_processes > 1) {
    throw Error("num_processes is " + std::to_string(invocation.config.num_processes) + " and nothing has started them",
                "run build/fathom itself");
  }
  if (invocation.processes) return train_together(invocation, std::move(session));
  prove_kernels(invocation, session);
  return train(invocation, session);
}

const InEngine<run_train> kTrain;

}  // namespace
}  // namespace fathom::app
