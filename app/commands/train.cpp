// `fathom train`: plan, run, and set what was measured beside what was predicted.
#include "app/commands/train.h"

#include <chrono>
#include <cstdlib>
#include <functional>

#include "app/engine.h"
#include "app/exit_status.h"
#include "app/machine.h"
#include "app/out_of_memory.h"
#include "app/planning.h"
#include "app/recorder.h"
#include "app/run_folder.h"
#include "app/run_outcome.h"
#include "app/run_report.h"
#include "app/session.h"
#include "app/step_profile.h"
#include "app/step_times.h"
#include "app/strategy.h"
#include "app/together.h"
#include "app/traces.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/output.h"
#include "base/system_error.h"
#include "ledger/out_of_memory.h"
#include "plan/counted.h"
#include "plan/remedies.h"
#include "plan/workload.h"
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

train::RunResult play(const arch::Run& run, const schedule::RunInputs& inputs, const Session& session,
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

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The config as the user has given it: another machine, which goes on or evaluates, chooses kernels for itself.
config::RunConfig as_given(config::RunConfig config, const Invocation& invocation) {
  if (invocation.chose_kernels) config.cuda_kernels.reset();
  return config;
}

// Where a run begins, and with which settings: those of the invocation, but that a phantom, whose losses are none,
// plays every step, and that a step stays as large as those of the checkpoint where no words say how large it is.
struct Beginning {
  config::RunConfig config;
  std::optional<checkpoint::Checkpoint> resume;
};

Beginning beginning_of(const Train& invocation, const schedule::RunInputs& inputs, const Session& session,
                       weights::Readers* readers) {
  Beginning found{invocation.config, std::nullopt};
  if (invocation.phantom_gpu) found.config.early_stopping_patience = 0;
  found.resume = invocation.own_accumulation
                     ? train::find_resume(found.config, inputs, session.phantom, readers)
                     : train::find_resume_of_any_number(found.config, inputs, session.phantom, readers);
  return found;
}

int train(const Train& invocation, const Session& session) {
  const auto start = std::chrono::steady_clock::now();
  dist::Group* const group = session.group.get();
  const bool writes = session.placement.is_first();
  if (writes) refuse_taken_folder(invocation.config, invocation.phantom_gpu.has_value());
  StepProfile profile(invocation.profile, session.placement.cuda != nullptr && !session.phantom);
  const schedule::RunInputs inputs = train::open_inputs(invocation.config);
  std::optional<train::RanksThatRead> ranks;
  if (group != nullptr) {
    require_same_config(*group, invocation.config);
    ranks.emplace(*group);
  }
  const Beginning beginning = beginning_of(invocation, inputs, session, ranks ? &*ranks : nullptr);
  const std::optional<checkpoint::Checkpoint>& resume = beginning.resume;
  if (group != nullptr) require_same_run(*group, inputs, resume);
  if (resume) log_info("resuming from " + resume->folder().string());
  const int64_t resident_before = resident_bytes();
  const schedule::Start start_of_run = train::start_of(beginning.config, inputs, resume);
  if (group != nullptr) group->now("planning");
  const Planned planned = plan_with_strategy(
      planned_run(beginning.config, inputs, session), group,
      [&](const arch::Run& candidate) { return plan_of(candidate, inputs, start_of_run, session, invocation); });
  const plan::Plan& plan = planned.plan;
  const arch::Run run =
      arch::resolve(with_strategy(beginning.config, planned.run.config.strategy), inputs.architecture);
  const config::RunConfig& config = run.config;
  print(report::format_plan(plan));
  refuse_what_cannot_fit(plan, run, invocation.force);
  if (!session.phantom) refuse_what_the_host_cannot_hold(plan, invocation.force);
  const PlannedEvents events(planned.run, inputs, start_of_run, session, invocation);
  if (group != nullptr) group->meet();  // all have looked at the folder as it was
  const bool in_place = train::continues_in_place(config, resume);
  const EarlierReport earlier(in_place && writes ? config.output_dir : "");
  const Descriptor folder =
      writes ? prepare_run_folder(as_given(config, invocation), in_place, session.phantom) : Descriptor();
  if (writes) {
    write_run_report(run, invocation.command_line, {plan, std::nullopt}, report::memory_json({plan, std::nullopt}));
  }
  StepTimes times(run, inputs, session, plan);
  print(describe_run(config, inputs, resume) + report::folded(times.forecast()));
  Recorder recorder(config, resume, times, profile);
  keep_within_budget(plan.gpu ? plan.gpu->limit : config.memory_budget, session);
  if (session.placement.cuda != nullptr) session.placement.cuda->reset_peaks();
  train::RunResult result;
  try {
    result = play(run, inputs, session, plan, resume, writes ? recorder.observer() : train::Observer());
  } catch (const std::exception& error) {
    if (writes) record_failure(invocation, run, plan, seconds_since(start), error);
    throw;
  }
  const plan::Comparison comparison{plan, measured_of(result, session, resident_before)};
  std::vector<std::string> failures;
  if (const std::string why = plan::why_uncounted(*comparison.measured); !why.empty()) failures.push_back(why);
  if (!writes) {
    if (result.signal != 0) return 128 + result.signal;
    print_processes(comparison, events.compare(result), *group, result.stopped_early);
    return tell_failures(failures);
  }
  for (const std::vector<std::string>& each : {recorder.failures(), result.failures}) {
    failures.insert(failures.end(), each.begin(), each.end());
  }
  if (result.signal != 0) {
    report_or_keep(
        [&] {
          write_run_report(run, invocation.command_line, comparison, report::memory_json(comparison),
                           RunEnd{seconds_since(start), std::nullopt});
        },
        failures);
    const std::string go_on = " resume_from_checkpoint=auto", &command = invocation.command_line;
    log_info("stopped by a signal after step " + format_count(result.steps) + "; go on with: " + command +
             (command.find(go_on) == std::string::npos ? go_on : ""));
    tell_failures(failures);
    return 128 + result.signal;
  }

  const report::StepTimes took = times.sums(result.phase_seconds);
  const bool ran = !resume || resume->step() < result.steps;
  report_or_keep(
      [&] {
        if (!ran && earlier.exists()) return earlier.put_back();
        write_run_report(run, invocation.command_line, comparison,
                         memory_of(comparison, invocation, run, session, took),
                         RunEnd{seconds_since(start), result.kept_step});
      },
      failures);
  if (!ran) {
    print(report::folded(resume->folder().string() +
                         " is of the last step: none was left to run, and nothing to measure\n"));
  } else {
    print(report::format_memory(comparison, result.stopped_early) + "\n" +
          report::format_rules(comparison, /*all=*/false) + "\n");
  }
  if (group != nullptr) {
    print_processes(comparison, events.compare(result), *group, result.stopped_early);
  } else if (const auto compared = events.compare(result)) {
    print(report::folded(describe(*compared) + "\n"));
  }
  if (!session.phantom) {  // a phantom's losses and times are none
    print(report::format_step_times(took) + recorder.summary());
    print_outcome(result, config);
  }
  print("report: " + (std::filesystem::path(config.output_dir) / "report.html").string() + "\n");
  if (session.phantom) {
    print("A phantom run: played on a GPU that is not there; no number in the weights of " + config.output_dir +
          " is real.\n");
  } else {
    print_next(config, inputs);
  }
  if (!result.best_is_lost.empty()) {
    failures.push_back("the final weights are those of the last step, " + std::to_string(result.steps) +
                       ", not the best: its checkpoint cannot be taken: " + result.best_is_lost);
  }
  return tell_failures(failures);
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
