// Reads the model and the data once, then plans each line's run, on a GPU two at a time.
#include "app/commands/estimate_each.h"

#include <future>
#include <sstream>

#include "app/run/calibrations.h"
#include "app/run/planning.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "base/output.h"
#include "config/text.h"
#include "plan/advice/memory_keys.h"
#include "plan/bound.h"
#include "plan/outlook.h"

namespace fathom::app {
namespace {

using Settings = std::vector<std::string>;

// Blanks part them; what is no technique would ask for other data or another model than those that were read.
Settings settings_of(const std::string& line) {
  std::istringstream words(line);
  Settings settings;
  for (std::string word; words >> word;) {
    const std::string key = word.substr(0, word.find('='));
    if (plan::memory_key(key) != plan::MemoryKey::kSearched) {
      throw UsageError("--each: '" + word.substr(0, 64) + "' sets nothing that `fathom advise` varies",
                       "set it for all lines, behind the command");
    }
    if (!config::is_printable_text(word)) {
      throw UsageError("--each: the value of " + key + " is no text in UTF-8", "write it as in a config");
    }
    settings.push_back(word);
  }
  return settings;
}

config::RunConfig config_of(const Estimate& invocation, const Settings& settings) {
  Settings all = invocation.words.overrides;
  all.insert(all.end(), settings.begin(), settings.end());
  config::RunConfig run = invocation.is_model
                              ? config::config_of_model(invocation.config.model_name_or_path, all)
                              : config::load_config(invocation.words.subject, all, config::Purpose::kEstimate);
  refuse_open_strategy("--each", run);
  run.model_name_or_path = invocation.config.model_name_or_path;
  run.cuda_kernels = invocation.config.cuda_kernels;
  return run;
}

Json answer(const arch::Run& run, const schedule::RunInputs& inputs, const std::optional<config::GpuSpec>& gpu,
            const plan::Workload& workload, const play::AskPhantom& ask) {
  const play::Subject subject{run, *inputs.folder, workload};
  const plan::Plan plan = gpu ? plan_for_gpu(subject, {.gpu = *gpu, .detail = plan::Detail::kArithmetic}, ask)
                              : plan_for_cpu(subject, run.config.num_processes);
  plan::OutlookQuestion question;
  if (gpu) question.throughput = plan::throughput_of(*gpu, run);
  const plan::Outlook outlook = plan::look_ahead(run, plan, question);
  const int64_t missing = plan::missing_bytes(plan);
  return {{"need", missing == 0 ? plan::needed_bytes(plan) : plan.target.capacity_bytes + missing},
          {"highest", plan.gpu ? plan.gpu->reserved_range.highest : plan::needed_bytes(plan)},
          {"capacity", plan.target.capacity_bytes},
          {"fits", missing == 0},
          {"formula", plan.analytic.peak},
          {"host_bytes", plan.offloaded},
          {"expected_seconds", outlook.step ? Json(outlook.step->seconds()) : Json(nullptr)}};
}

}  // namespace

int estimate_each(const Estimate& invocation, const schedule::RunInputs& inputs,
                  const std::optional<config::GpuSpec>& gpu) {
  constexpr size_t kAtOnce = 2;  // children that play
  std::vector<Settings> lines;
  std::istringstream text(read_file(invocation.each));
  for (std::string line; std::getline(text, line);) lines.push_back(settings_of(line));
  const play::AskPhantom ask = gpu ? ask_phantom_children() : play::AskPhantom();
  for (size_t first = 0; first < lines.size(); first += kAtOnce) {
    std::vector<std::future<Json>> asked;
    for (size_t line = first; line < std::min(lines.size(), first + kAtOnce); ++line) {
      const auto one = [&, line]() -> Json {
        try {
          const config::RunConfig config = config_of(invocation, lines[line]);
          const arch::Run run = planned_run(arch::resolve(config, inputs.architecture), inputs.train);
          return answer(run, inputs, gpu, estimated_workload(run, inputs, schedule::played_on(gpu.has_value())), ask);
        } catch (const Error& error) {
          return {{"refused", error.what()}};
        }
      };
      asked.push_back(std::async(gpu ? std::launch::async : std::launch::deferred, one));
    }
    for (size_t i = 0; i < asked.size(); ++i) {
      Json json = {{"settings", lines[first + i]}};
      json.update(asked[i].get());
      print(json.dump() + "\n");
    }
  }
  return 0;
}

}  // namespace fathom::app
