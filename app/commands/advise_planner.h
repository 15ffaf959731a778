// Plans of one model and its data under other settings, for `fathom advise`.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "app/invocation.h"
#include "app/run/session.h"
#include "app/waiting.h"
#include "plan/advice/search.h"
#include "play/make_plan.h"
#include "schedule/inputs.h"

namespace fathom::app {

class Planner {
 public:
  // varies_length: the data are read as long as they may be, and cut to each run's max_length. host_bytes: that may lie
  // in the host's memory; unset: what this machine has free for its GPU, or what another is taken to have.
  Planner(const Invocation& invocation, const Session& session, bool varies_length, std::optional<int64_t> host_bytes);

  const schedule::RunInputs& inputs() const { return inputs_; }
  const arch::Run& run() const { return run_; }  // as it is
  arch::Run resolved(const config::RunConfig& config) const { return arch::resolve(config, inputs_.architecture); }
  bool has_data() const { return !inputs_.train.empty(); }
  const std::optional<config::GpuSpec>& gpu() const { return gpu_; }

  // About the run. careful: what is not sure to fit counts as what does not.
  plan::Question question(const arch::Run& run, bool careful = false);

  // What an answer leaves of a device where one can; nothing within a budget, which bounds the allocator alone.
  int64_t free_bytes();
  int64_t desktop_bytes() const { return gpu_ ? static_cast<int64_t>(gpu_->desktop_bytes) : 0; }

  // The smallest known GPUs on which the run is sure to fit.
  std::vector<std::string> enough_for(const config::RunConfig& run, int64_t need);
  // Why the hardware does not run the run as it is; empty: it does.
  std::string why_not() const;

  plan::Workload workload_of(const arch::Run& run);

  // Nothing more is searched: the terminal is free for results.
  void end() { waiting_.reset(); }

 private:
  // What a dry run said of a run: the figures of which proofs are made.
  struct Played {
    int64_t need = 0, missing = 0;               // bytes
    bool sure = false;                           // the driver's own share and a desktop have room beside it
    plan::StepArithmetic arithmetic;             // of the longest step
    std::optional<plan::Throughput> throughput;  // for it, where the GPU's operators were measured
  };
  // What an order rests on and a search varies: rows, accumulated batches, length, rows and cadence of evaluations,
  // processes.
  using Shapes = std::tuple<int64_t, int64_t, int64_t, int64_t, config::Cadence, int64_t>;

  plan::Target target_of() const;
  // A search that is repeated with another bound asks again.
  const Played& play(const config::RunConfig& run, int64_t capacity);
  void play_ahead(const std::vector<config::RunConfig>& runs);
  // What it returns may be called on any thread: what it needs of this planner is worked out before.
  std::function<Played()> play_on(const config::GpuSpec& gpu, const config::RunConfig& run,
                                  plan::Detail detail = plan::Detail::kArithmetic);
  play::Subject subject_of(const arch::Run& counted);
  plan::Workload planned_workload(const arch::Run& run);
  arch::Run planned(const config::RunConfig& config);
  const schedule::Schedule& schedule_of(const arch::Run& run);
  schedule::Schedule make_schedule(const arch::Run& run);
  data::Dataset cut(const data::Dataset& dataset, const config::RunConfig& run) const;

  const Invocation& invocation_;
  std::optional<Waiting> waiting_{std::in_place, "searching", "dry run"};
  const bool varies_length_;
  std::optional<int64_t> host_bytes_;
  schedule::RunInputs inputs_;
  arch::Run run_;
  std::optional<config::GpuSpec> gpu_;
  play::AskPhantom ask_;
  std::map<std::string, Played> played_;  // by the run's YAML
  std::map<Shapes, schedule::Schedule> schedules_;
};

}  // namespace fathom::app
