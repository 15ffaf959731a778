// `fathom estimate` on the command line, and `fathom estimate 7B`, which needs no LibTorch.
#pragma once

#include <cmath>

#include "app/words/shared_options.h"
#include "base/count.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/output.h"
#include "plan/plan.h"
#include "plan/time/cost.h"
#include "report/parameters_table.h"
#include "schedule/inputs.h"

namespace fathom::app {

class Estimate final : public Invocation {
 public:
  Estimate() : Invocation("estimate", "Memory, time and cost before the run, without weights") {}
  std::vector<Option> options() override {
    return {
        words.subject_option(
            "CONFIG|MODEL",
            "A YAML file, a folder with config.json, a .json file, a known model (llama-2-7b), or a number (7B)"),
        planned.name_option("--gpu", "Plan for a GPU of configs/gpus.yaml"),
        planned.memory_option("with --gpu NAME"),
        Option("--placements", placements, "N",
               "Of memory segments that a GPU's ranges are taken over; without it 4, or 1 where segments expand")
            .within(1, 64),
        Option("--tokens", tokens, "N", "Time and cost to train on so many, as 300M or 2T")
            .used_only(gpu_hours.empty(), "without --gpu-hours"),
        {"--gpu-hours", gpu_hours, "N", "Cost of so many, instead of reckoned ones"},
        Option("--gpus", gpus, "N", "So many processes, a GPU each; with --gpu-hours alone only their price")
            .within(1, 1 << 20),
        Option("--price-per-hour", budget.price_per_hour, "X", "Dollars for all of them, instead of the listed price")
            .within(0, 1e9)
            .used_only(!tokens.empty() || !gpu_hours.empty(), "with --tokens or --gpu-hours"),
        Option("--explain", explain, "",
               "Also the formulas of the peak with their numbers, and all rules of thumb with reasons")
            .used_only(!json, "without --json, which has all of it"),
        {"--inference", inference, "", "Instead: memory to use the model, weights and cache"},
        {"--page", page, "FILE.html", "Also a page with the step's memory over time"},
        {"--kernels", kernels, "", "Instead: what a step gives the device to do, and how long it takes at least"},
        {"--attention", attention, "", "Instead: attention over lengths, flash against math, timed here"},
        {"--whole", whole, "", "Play every step, however long that takes: exact where a long run else has a bound"},
        {"--each", each, "FILE", "Instead: a plan for each line of settings (key=value, of techniques), as JSON lines"},
        json_option(json),
        words.overrides_option()};
  }
  std::optional<Use> use() const override {
    if (parameters() > 0) {
      return Use{"with a number of parameters",
                 {"CONFIG|MODEL", "--json"},
                 "name a model, as llama-2-7b, or a folder with config.json"};
    }
    if (attention) {
      return Use{"with --attention, which measures here",
                 {"CONFIG|MODEL", "overrides", "--attention", "--json"},
                 "remove one of them"};
    }
    if (kernels) {
      return Use{"with --kernels, which lists one step",
                 {"CONFIG|MODEL", "overrides", "--kernels", "--gpu", "--gpus", "--json"},
                 "remove one of them"};
    }
    if (!each.empty()) {
      return Use{"with --each, which plans many runs",
                 {"CONFIG|MODEL", "overrides", "--each", "--gpu", "--gpu-memory", "--gpus", "--json"},
                 "remove one of them"};
    }
    if (inference) {
      return Use{"with --inference, which plans no training",
                 {"CONFIG|MODEL", "overrides", "--inference", "--gpu", "--gpu-memory", "--json"},
                 "remove one of them"};
    }
    return std::nullopt;
  }
  void complete() override {
    if (parameters() > 0) return;
    budget.tokens = count_of("tokens", tokens);
    budget.gpu_hours = count_of("gpu-hours", gpu_hours);
    if (budget.price_per_hour && !std::isfinite(*budget.price_per_hour)) {
      throw UsageError("--price-per-hour: expected a number of dollars");
    }
    gpu = planned.find();
    const bool plans_gpus = gpus && (gpu || !budget.gpu_hours);
    if (plans_gpus) words.plan_processes(*gpus);
    is_model = read_planned(words, /*takes_numbers=*/true, *this);
    take_ddp_alone(config);
    budget.gpus = gpus.value_or(config.num_processes);
    const bool asks_of_a_plan = !words.overrides.empty() || gpu || placements || explain || json || !page.empty();
    price_alone = budget.gpu_hours && is_model && !asks_of_a_plan;
    choose_device(*this);
    if (plans_gpus && *gpus > 1 && !gpu && device == config::Device::kCpu) {
      throw UsageError("--gpus " + std::to_string(*gpus) + ": of which GPU is not said, and there is none here",
                       "add --gpu H100, say; processes on CPUs are num_processes=" + std::to_string(*gpus));
    }
  }
  int run() const override {
    const int64_t count = parameters();
    if (count == 0) return Invocation::run();
    print(json ? format_json(report::parameters_json(count)) : report::format_parameters(count));
    return 0;
  }

  ConfigWords words;
  GpuWords planned;
  std::string tokens, gpu_hours;  // of the budget
  std::optional<int64_t> gpus;    // processes of the plan, or of a price alone; unset: as the config says
  plan::Budget budget;            // tokens or GPU hours, GPUs and price
  bool price_alone = false;       // of the budget's GPU hours, for which nothing need be planned
  std::optional<int> placements;  // of segments, for the ranges of allocated and reserved bytes; unset: as many as
                                  //   can differ
  bool whole = false;             // nothing of the run is represented
  std::string each;               // a file with settings in each line; empty: one plan
  bool is_model = false;          // the subject, and no config
  bool json = false;
  bool inference = false;      // memory to use the model, instead of to train it
  bool explain = false;        // how the figures come about, besides
  bool attention = false;      // attention's memory and time over lengths, on this machine
  bool kernels = false;        // the step's kernels
  std::filesystem::path page;  // a page of the plan to write too; empty: none

 private:
  // "7B": a bare number of parameters, unless a file or folder has that name; 0: none.
  int64_t parameters() const {
    constexpr double kMost = 1e15;
    if (std::filesystem::exists(words.subject)) return 0;
    const std::optional<double> count = parse_count(words.subject);
    return count && *count >= 1 && *count <= kMost ? std::llround(*count) : 0;
  }
  static std::optional<double> count_of(const std::string& option, const std::string& text) {
    if (text.empty()) return std::nullopt;
    const std::optional<double> count = parse_count(text);
    if (!count || *count <= 0) {
      throw UsageError("--" + option + ": expected a number above 0 like 184320, 300M or 2T, got '" +
                       text.substr(0, 64) + "'");
    }
    return count;
  }
};

// Throws UsageError where strategy: auto leaves open how several processes share the model, and `option` needs it said.
void refuse_open_strategy(const std::string& option, const config::RunConfig& config);
// What a run without data or with these plays: batches of max_length, accumulated as the config says, or the data's.
// played: as schedule::make_schedule has it.
plan::Workload estimated_workload(const arch::Run& run, const schedule::RunInputs& inputs, int64_t played);

}  // namespace fathom::app
