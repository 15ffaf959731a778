// Plans the run with each of the settings.
#include "app/run/faster.h"

#include <algorithm>
#include <set>

#include "app/run/planning.h"
#include "arch/recorded_layers.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/log.h"
#include "base/numbers.h"
#include "config/checks.h"
#include "plan/bound.h"

namespace fathom::app {
namespace {

constexpr double kWorthwhile = 0.95;  // of the time
constexpr double kLongestPlan = 5;    // seconds

bool keeps_rules(const config::RunConfig& run) {
  config::Problems problems("");
  config::check_together(run, {}, config::Purpose::kEstimate, problems);
  return problems.empty();
}

bool has_few_shapes(const std::vector<schedule::StepShape>& steps) {
  std::set<schedule::BatchShape> shapes;
  for (const schedule::StepShape& step : steps) shapes.insert(step.begin(), step.end());
  return std::ssize(shapes) <= arch::kMostRecorded;
}

}  // namespace

std::vector<Faster> faster_settings(const arch::Run& run, const config::GpuSpec& gpu, const plan::Plan& plan,
                                    const plan::Outlook& outlook, const plan::OutlookQuestion& question,
                                    const PlanOf& plan_of) {
  std::vector<Faster> faster;
  const bool can_tell = plan.throughput && outlook.step && outlook.fits && plan.seconds < kLongestPlan;
  if (!can_tell || !has_few_shapes(question.steps)) return faster;
  plan::OutlookQuestion of_a_step = question;
  of_a_step.steps.clear();
  double best = outlook.step->seconds();
  for (const auto& [cudnn, graphs] : {std::pair(true, false), std::pair(false, true), std::pair(true, true)}) {
    config::RunConfig config = run.config;
    if (cudnn && config.attn_implementation == config::Attention::kFlash) {
      config.attn_implementation = config::Attention::kCudnn;
    }
    config.cuda_graphs = config.cuda_graphs || graphs;
    const bool with_cudnn = config.attn_implementation != run.config.attn_implementation;
    const bool with_graphs = config.cuda_graphs != run.config.cuda_graphs;
    if (with_cudnn != cudnn || with_graphs != graphs) continue;
    if (!keeps_rules(config)) continue;
    const arch::Run changed = arch::resolve(config, run.architecture);
    if (!why_not_on(gpu, changed).empty()) continue;
    try {
      const plan::Plan other = plan_of(changed);
      const plan::Outlook ahead = plan::look_ahead(changed, other, of_a_step);
      if (!ahead.fits || !ahead.step || ahead.step->seconds() > kWorthwhile * best) continue;
      best = std::min(best, ahead.step->seconds());
      const std::string of_cudnn = cudnn ? "attn_implementation: cudnn" : "";
      faster.push_back({of_cudnn + (cudnn && graphs ? ", " : "") + (graphs ? "cuda_graphs: true" : ""),
                        ahead.step->seconds(), other.gpu->reserved_range.highest});
    } catch (const UsageError&) {
      continue;  // of a run that cannot have it
    } catch (const Error& error) {
      log_warning(std::string(error.what()) + "; what would be faster is not told");
      return faster;
    }
  }
  return faster;
}

std::string describe_faster(const std::vector<Faster>& faster, const plan::Outlook& outlook) {
  std::string text;
  for (const Faster& each : faster) {
    text += "  " + each.settings + ": " + format_seconds(each.step_seconds) + " a step, " +
            format_change(each.step_seconds / outlook.step->seconds() - 1) + "; " + format_bytes(each.reserved) +
            " reserved\n";
  }
  return text.empty() ? "" : "The same run, expected to be faster:\n" + text;
}

Json to_json(const std::vector<Faster>& faster) {
  Json json = Json::array();
  for (const Faster& each : faster) {
    json.push_back({{"settings", each.settings}, {"step_seconds", each.step_seconds}, {"reserved", each.reserved}});
  }
  return json;
}

}  // namespace fathom::app
