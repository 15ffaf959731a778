// `fathom advise`: what fits a budget or a GPU.
#include "app/commands/advise.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <tuple>

#include "app/calibrations.h"
#include "app/engine.h"
#include "app/installation.h"
#include "app/machine.h"
#include "app/planning.h"
#include "app/session.h"
#include "app/waiting.h"
#include "arch/architecture.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/output.h"
#include "config/to_yaml.h"
#include "plan/bound.h"
#include "plan/fit.h"
#include "plan/host.h"
#include "plan/search.h"
#include "play/dry_run.h"
#include "play/make_plan.h"
#include "report/advice_table.h"
#include "train/inputs.h"
#include "train/resume.h"
#include "weights/folder.h"

namespace fathom::app {
namespace {

constexpr int64_t kLargestBatch = int64_t{1} << 20;  // where no data bound it

// What a dry run said of a run: the figures of which proofs are made.
struct Played {
  int64_t need = 0, missing = 0;  // bytes
  bool sure = false;              // the driver's own share and a desktop have room beside it
  plan::Arithmetic arithmetic;    // of the longest step
};

// To read data for every max_length: no example is cut but where the model has no positions for it.
int64_t longest_length(const config::RunConfig& run) {
  const weights::ModelFolder folder(run.model_name_or_path, /*weights_required=*/false);
  const std::string config = (folder.path() / "config.json").string();
  return arch::parse_architecture(folder.config(), config).longest_text().value_or(std::numeric_limits<int32_t>::max());
}

// Plans runs of one model and its data under other settings.
class Planner {
 public:
  // varies_length: the data are read as long as they may be, and cut to each run's max_length.
  Planner(const Invocation& invocation, const Session& session, bool varies_length)
      : invocation_(invocation), varies_length_(varies_length) {
    config::RunConfig reading = invocation.config;
    if (varies_length) reading.max_length = longest_length(reading);
    inputs_ = train::open_inputs(reading, /*weights_required=*/false);
    gpu_ = invocation.gpu;
    if (!gpu_ && session.placement.cuda != nullptr) gpu_ = listed_spec_of(*session.placement.cuda);
    if (gpu_) ask_ = ask_phantom_children();
  }

  const schedule::RunInputs& inputs() const { return inputs_; }
  bool has_data() const { return !inputs_.train.empty(); }

  // careful: what is not sure to fit counts as what does not.
  plan::Question question(bool careful = false) {
    plan::Target target = target_of();
    const int64_t capacity = target.capacity_bytes;
    if (careful) target.capacity_bytes -= free_bytes();
    plan::Question question{inputs_.architecture, invocation_.config, target, {}, {}, {}, {}, {}};
    if (gpu_) question.play_ahead = [this](const auto& runs) { play_ahead(runs); };
    question.workload_of = [this](const config::RunConfig& run) { return workload_of(run); };
    question.prove = [this, careful, capacity](const config::RunConfig& run) {
      const Played& played = play(run, capacity);
      const bool fits = played.missing == 0;
      return plan::Proof{fits ? played.need : capacity + played.missing, careful ? played.sure : fits,
                         fits && !played.sure, played.arithmetic};
    };
    if (!gpu_) {
      question.slowdown = [this](const config::RunConfig& run) { return slowdown_on_cpu(run, inputs_.architecture); };
    }
    question.throughput = [this](const config::RunConfig& run) {
      return gpu_ ? plan::throughput_of(*gpu_, run, inputs_.architecture)
                  : cpu_throughput(run, inputs_.architecture, at::get_num_threads());
    };
    return question;
  }

  // What an answer leaves of a device where one can; nothing within a budget, which bounds the allocator alone.
  int64_t free_bytes() {
    const plan::Target target = target_of();
    if (target.within_budget) return 0;
    if (!gpu_) return target.capacity_bytes - plan::most_tensors_within(target.capacity_bytes);
    const auto calibration = calibration_of(gpu_->product);
    const auto share =
        calibration ? plan::overhead_of(*calibration, plan::kernel_settings(invocation_.config, inputs_.architecture))
                    : std::nullopt;
    const int64_t free = share.value_or(plan::kUncertainBytes) + desktop_bytes();
    return free < gpu_->memory_bytes ? free : 0;
  }
  int64_t desktop_bytes() const { return gpu_ ? static_cast<int64_t>(gpu_->desktop_bytes) : 0; }

  // The smallest known GPUs on which the run is sure to fit.
  std::vector<std::string> enough_for(const config::RunConfig& run, int64_t need) {
    constexpr size_t kMost = 3;
    std::vector<config::GpuSpec> larger;
    for (const auto& [name, gpu] : config::load_gpus(gpus_file())) {
      const bool runs =
          config::is_supported(gpu.compute_capability) && why_not_on(gpu, run, inputs_.architecture).empty();
      const int64_t others = plan::kUncertainBytes + static_cast<int64_t>(gpu.desktop_bytes);
      if (runs && gpu.memory_bytes >= need + others && name != gpu_->name) larger.push_back(gpu);
    }
    std::sort(larger.begin(), larger.end(),
              [](const auto& a, const auto& b) { return a.memory_bytes < b.memory_bytes; });
    std::vector<std::string> enough;
    for (auto next = larger.begin(); next != larger.end() && enough.size() < kMost;) {
      std::vector<std::future<Played>> asked;  // no more than are still wanted
      const auto first = next;
      for (; next != larger.end() && asked.size() < kMost - enough.size(); ++next) {
        asked.push_back(std::async(std::launch::async, play_on(*next, run, plan::Detail::kBytes)));
      }
      for (size_t i = 0; i < asked.size(); ++i) {
        const Played played = asked[i].get();
        const config::GpuSpec& gpu = first[static_cast<std::ptrdiff_t>(i)];
        if (played.missing > 0 || !played.sure) continue;
        enough.push_back(gpu.name + " (" + format_bytes(gpu.memory_bytes) + ")");
      }
    }
    return enough;
  }
  bool has_gpu() const { return gpu_.has_value(); }
  // Why the hardware does not run the run as it is; empty: it does.
  std::string why_not() const { return gpu_ ? why_not_on(*gpu_, invocation_.config, inputs_.architecture) : ""; }

  plan::Workload workload_of(const config::RunConfig& run) { return planned_workload(planned(run)); }

  // Nothing more is searched: the terminal is free for results.
  void end() { waiting_.reset(); }

 private:
  // What an order rests on and a search varies: rows, accumulated batches, length, rows and cadence of evaluations.
  using Shapes = std::tuple<int64_t, int64_t, int64_t, int64_t, config::Cadence>;

  plan::Target target_of() const {
    plan::Target target;
    if (gpu_) {
      target.device = config::Device::kCuda;
      target.name = gpu_->name;
      target.compute_capability = gpu_->compute_capability;
      target.capacity_bytes = gpu_->memory_bytes;
      target.gpus_per_node = static_cast<int64_t>(gpu_->gpus_per_node);
      plan::bound_by_budget(target, invocation_.config.memory_budget);
    } else {
      target = play::cpu_target();
      const int64_t budget = invocation_.config.memory_budget;
      target.capacity_bytes = budget > 0 ? budget : available_memory_bytes();
      target.within_budget = budget > 0;
    }
    return target;
  }

  // A search that is repeated with another bound asks again.
  const Played& play(const config::RunConfig& run, int64_t capacity) {
    const std::string key = config::to_yaml(run);
    const auto known = played_.find(key);
    if (known != played_.end()) return known->second;
    if (waiting_) waiting_->count();
    if (gpu_) return played_[key] = play_on(*gpu_, run)();
    const config::RunConfig counted = planned(run);
    // A budget for the CPU may be that of another machine.
    plan::Plan plan = play::plan_cpu(subject_of(counted), capacity, plan::Detail::kArithmetic);
    plan.target.within_budget = run.memory_budget > 0;
    const bool sure = plan::fit_of(plan) == plan::Fit::kFits;
    return played_[key] = {plan::needed_bytes(plan), plan::missing_bytes(plan), sure, plan.arithmetic};
  }

  void play_ahead(const std::vector<config::RunConfig>& runs) {
    std::map<std::string, std::future<Played>> asked;
    for (const config::RunConfig& run : runs) {
      const std::string key = config::to_yaml(run);
      if (played_.contains(key) || asked.contains(key)) continue;
      if (waiting_) waiting_->count();
      asked[key] = std::async(std::launch::async, play_on(*gpu_, run));
    }
    for (auto& [key, played] : asked) played_[key] = played.get();
  }

  // What it returns may be called on any thread: what it needs of this planner is worked out before.
  std::function<Played()> play_on(const config::GpuSpec& gpu, const config::RunConfig& run,
                                  plan::Detail detail = plan::Detail::kArithmetic) {
    const config::RunConfig counted = planned(run);
    return [this, gpu, detail, counted, workload = planned_workload(counted)] {
      const play::Subject subject{counted, inputs_.architecture, *inputs_.folder, workload};
      const plan::Plan plan = plan_for_gpu(subject, {.gpu = gpu, .detail = detail}, ask_);
      const auto desktop = plan.target.within_budget ? 0 : static_cast<int64_t>(gpu.desktop_bytes);
      const int64_t share = plan.gpu->overhead.value_or(plan::kUncertainBytes);
      const bool sure = plan::fit_of(plan) == plan::Fit::kFits &&
                        (desktop == 0 || plan.gpu->reserved_range.highest + share + desktop <= gpu.memory_bytes);
      return Played{plan::needed_bytes(plan), plan::missing_bytes(plan), sure, plan.arithmetic};
    };
  }

  play::Subject subject_of(const config::RunConfig& counted) {
    return {counted, inputs_.architecture, *inputs_.folder, planned_workload(counted)};
  }

  plan::Workload planned_workload(const config::RunConfig& run) {
    return plan::make_workload(run, inputs_.architecture, schedule_of(run));
  }

  config::RunConfig planned(const config::RunConfig& run) {
    if (run.eval_strategy != config::Cadence::kSteps) return run;  // without cutting the data for every question
    return schedule::without_late_evaluations(run, cut(inputs_.train, run));
  }

  const schedule::Schedule& schedule_of(const config::RunConfig& run) {
    const Shapes key{run.per_device_train_batch_size, run.gradient_accumulation_steps, run.max_length,
                     run.per_device_eval_batch_size, run.eval_strategy};
    const auto known = schedules_.find(key);
    return known != schedules_.end() ? known->second : schedules_[key] = make_schedule(run);
  }

  schedule::Schedule make_schedule(const config::RunConfig& run) {
    if (!has_data()) {
      const schedule::BatchShape batch = schedule::largest_batch(run, inputs_.architecture);
      return schedule::imagined_schedule({schedule::StepShape(run.gradient_accumulation_steps, batch)}, {});
    }
    return schedule::make_schedule(run, inputs_.architecture, cut(inputs_.train, run), cut(inputs_.validation, run),
                                   train::start_of(run, inputs_, std::nullopt), schedule::played_on(gpu_.has_value()));
  }

  data::Dataset cut(const data::Dataset& dataset, const config::RunConfig& run) const {
    return varies_length_ ? dataset.cut(run.max_length) : dataset;
  }

  const Invocation& invocation_;
  std::optional<Waiting> waiting_{std::in_place, "searching", "dry run"};
  const bool varies_length_;
  schedule::RunInputs inputs_;
  std::optional<config::GpuSpec> gpu_;
  play::AskPhantom ask_;
  std::map<std::string, Played> played_;  // by the run's YAML
  std::map<Shapes, schedule::Schedule> schedules_;
};

// The shortest length that leaves every file an example to learn from.
int64_t shortest_length(const schedule::RunInputs& inputs) {
  const auto of = [](const data::Dataset& dataset) {
    int64_t shortest = dataset.empty() ? 1 : std::numeric_limits<int64_t>::max();
    for (int64_t row = 0; row < dataset.size(); ++row) {
      const data::Example example = dataset.example(row);
      const auto target = std::find_if(example.labels.begin() + 1, example.labels.end(),
                                       [](int32_t label) { return label != data::kIgnored; });
      shortest = std::min<int64_t>(shortest, target - example.labels.begin() + 1);
    }
    return shortest;
  };
  return std::max(of(inputs.train), of(inputs.validation));
}

// Larger values change nothing: the data end, or the model does.
int64_t limit_of(plan::Vary vary, const Planner& planner, const config::RunConfig& run) {
  const schedule::RunInputs& inputs = planner.inputs();
  switch (vary) {
    case plan::Vary::kBatch:
      return planner.has_data() ? inputs.train.size() : kLargestBatch;
    case plan::Vary::kLength:
      if (!planner.has_data()) {
        return inputs.architecture.longest_text().value_or(
            std::max(run.max_length, inputs.architecture.max_position_embeddings));
      }
      return std::max(inputs.longest_train, inputs.longest_validation);
    case plan::Vary::kRank:
      break;
  }
  if (run.method != config::Method::kLora) {
    throw UsageError("--vary rank: the run trains every weight, and only adapters have a rank", "add method=lora");
  }
  return inputs.architecture.hidden_size;
}

report::AdviceSubject subject_of(Planner& planner, const plan::Question& question) {
  report::AdviceSubject subject{question, {}, planner.why_not(), planner.free_bytes(), planner.desktop_bytes()};
  if (subject.as_it_is_refused.empty()) subject.as_it_is = question.prove(question.run);
  return subject;
}

void advise_value(plan::Vary vary, Planner& planner, const plan::Question& question, bool json) {
  if (const std::string why = planner.why_not(); !why.empty()) throw UsageError(why);
  const report::AdviceSubject subject = subject_of(planner, question);
  const int64_t lowest = vary == plan::Vary::kLength ? shortest_length(planner.inputs()) : 1;
  const plan::Largest largest =
      plan::largest_that_fits(vary, {lowest, limit_of(vary, planner, question.run)}, question);
  planner.end();
  if (json) {
    print(format_json(report::largest_json(subject, vary, largest)));
  } else {
    print(report::format_largest(subject, vary, largest));
  }
}

// What leaves room for others comes first, be it slower; where nothing does, what fits near the limit.
plan::Advice least_time(Planner& planner, const plan::Question& question, const std::set<std::string>& keep) {
  if (planner.free_bytes() > 0) {
    plan::Advice careful = plan::least_time_that_fits(planner.question(/*careful=*/true), keep);
    if (careful.best) return careful;
  }
  plan::Advice advice = plan::least_time_that_fits(question, keep);
  if (!advice.best && planner.has_gpu()) {
    advice.enough = planner.enough_for(advice.smallest->run, advice.smallest->proof->need);
  }
  return advice;
}

void advise_techniques(Planner& planner, const plan::Question& question, const Advise& invocation) {
  const report::AdviceSubject subject = subject_of(planner, question);
  const plan::Advice advice = least_time(planner, question, invocation.keep);
  std::optional<plan::Advice> same_method;
  if (advice.best && advice.best->run.method != question.run.method) {
    std::set<std::string> with_method = invocation.keep;
    with_method.insert("method");
    same_method = least_time(planner, question, with_method);
  }
  const std::vector<plan::Remedy> alone =
      plan::remedies(question.architecture, question.run, question.target, planner.workload_of(question.run));
  planner.end();
  if (advice.best && lost_updates(question.run, question.architecture).empty()) {
    warn_of_lost_updates(advice.best->run, question.architecture);
  }
  const plan::Advice* other = same_method ? &*same_method : nullptr;
  if (invocation.json) {
    print(format_json(report::advice_json(subject, advice, other, alone)));
  } else {
    print(report::format_advice(subject, advice, other, alone));
  }
}

int run_advise(const Advise& invocation) {
  const Session session = open_session(invocation);
  Planner planner(invocation, session, invocation.vary == plan::Vary::kLength);
  if (planner.inputs().architecture.encoder && invocation.vary == plan::Vary::kLength) {
    throw UsageError("--vary length: an encoder and decoder has two lengths, max_length and max_target_length",
                     "ask `fathom estimate` with the lengths that you have in mind");
  }
  warn_of_lost_updates(invocation.config, planner.inputs().architecture);
  const plan::Question question = planner.question();
  if (invocation.vary) {
    advise_value(*invocation.vary, planner, question, invocation.json);
  } else {
    advise_techniques(planner, question, invocation);
  }
  return 0;
}

const InEngine<run_advise> kAdvise;

}  // namespace
}  // namespace fathom::app
