// Builds memory.json.
#include "report/memory_json.h"

#include <string>

#include "base/json_value.h"
#include "plan/advice/rules.h"
#include "plan/bound.h"
#include "plan/fit.h"
#include "plan/host.h"

namespace fathom::report {
namespace {

using memory::Component;
using memory::Memory;
using memory::Phase;

Json or_null(const std::optional<int64_t>& bytes) { return bytes ? Json(*bytes) : Json(nullptr); }

// The three figures of every component; `of` picks them from the ledger's value.
template <typename Of>
Json component_figures(const memory::ComponentBytes& analytic, const Memory& dry_run, const Memory* measured, Of of) {
  Json figures = Json::object();
  for (const Component component : memory::kComponents) {
    figures[std::string(component_name(component))] = {
        {"analytic", analytic[component]},
        {"dry_run", of(dry_run)[component]},
        {"measured", measured ? Json(of(*measured)[component]) : Json(nullptr)}};
  }
  return figures;
}

Json phase_figures(const Memory& dry_run, const Memory* measured) {
  Json phases = Json::object();
  for (const Phase phase : memory::kPhases) {
    const Memory::PhaseMemory* planned = dry_run.phase(phase).seen ? &dry_run.phase(phase) : nullptr;
    const Memory::PhaseMemory* seen = measured && measured->phase(phase).seen ? &measured->phase(phase) : nullptr;
    if (!planned && !seen) continue;
    const auto figures = [&](auto of) {
      return Json{{"dry_run", planned ? Json(of(*planned)) : Json(nullptr)},
                  {"measured", seen ? Json(of(*seen)) : Json(nullptr)}};
    };
    Json end = Json::object();
    for (const Component component : memory::kComponents) {
      end[std::string(component_name(component))] =
          figures([component](const Memory::PhaseMemory& memory) { return memory.end[component]; });
    }
    phases[std::string(phase_name(phase))] = {
        {"peak", figures([](const Memory::PhaseMemory& memory) { return memory.peak; })}, {"end", end}};
  }
  return phases;
}

// The analytic figure term by term; the bytes add up to its peak.
Json derivation_json(const plan::Analytic& analytic) {
  Json terms = Json::array();
  for (const plan::Analytic::Term& term : analytic.terms) {
    terms.push_back({{"component", component_name(term.component)},
                     {"what", term.what},
                     {"formula", term.formula},
                     {"layers", term.layers},
                     {"bytes", term.bytes},
                     {"source", term.source}});
  }
  return terms;
}

Json target_json(const plan::Target& target) {
  return {{"device", target.device == config::Device::kCuda ? "cuda" : "cpu"},
          {"name", target.name},
          {"compute_capability", target.compute_capability},
          {"capacity", target.capacity_bytes},
          {"bounded_by", target.within_budget ? "memory_budget" : "device"},
          {"threads", target.threads},
          {"attention_kernel", target.attention_kernel},
          {"phantom", target.phantom}};
}

Json workload_json(const plan::Plan& plan) {
  Json steps = Json::array();
  for (const schedule::StepShape& step : plan.workload.steps) {
    Json micro_batches = Json::array();
    for (const schedule::BatchShape& batch : step) {
      Json sizes = {batch.rows, batch.length, batch.targets};
      if (batch.source_length > 0) sizes.push_back(batch.source_length);
      micro_batches.push_back(std::move(sizes));
    }
    steps.push_back(micro_batches);
  }
  return {{"parameters", plan.workload.parameters},
          {"trained_parameters", plan.workload.trained_parameters},
          {"quantized_parameters", plan.workload.quantized_parameters},
          {"base", plan.workload.base ? Json(quant::name_of(*plan.workload.base)) : Json(nullptr)},
          {"steps", steps},
          {"steps_played", plan.steps_played}};
}

// "allocated" or "reserved"; null throughout where there is no caching allocator.
Json allocator_figure(const std::optional<plan::GpuBytes>& gpu, int64_t plan::GpuBytes::*bytes,
                      plan::ByteRange plan::GpuBytes::*range, const std::optional<int64_t>& measured) {
  return {{"dry_run", gpu ? Json((*gpu).*bytes) : Json(nullptr)},
          {"range", gpu ? Json{((*gpu).*range).lowest, ((*gpu).*range).highest} : Json(nullptr)},
          {"bound", gpu ? Json(gpu->bound) : Json(nullptr)},
          {"measured", or_null(measured)}};
}

// The driver's figure; null where what lies beneath the runtime is not calibrated.
Json device_bytes(const plan::Plan& plan) {
  return plan.gpu && plan.gpu->overhead ? Json(plan.gpu->reserved + *plan.gpu->overhead) : Json(nullptr);
}

const char* fit_name(plan::Fit fit) {
  if (fit == plan::Fit::kUncertain) return "not proved";
  return fit == plan::Fit::kFits ? "fits" : "does not fit";
}

// The driver's figure less what is accounted for; on a CPU the growth of resident memory less the peak, for
// information.
std::optional<int64_t> unexplained(const plan::Plan& plan, const std::optional<plan::Measured>& measured) {
  if (!measured) return std::nullopt;
  if (measured->device_growth && measured->reserved) {
    return *measured->device_growth - *measured->reserved - (plan.gpu ? plan.gpu->overhead.value_or(0) : 0);
  }
  if (measured->resident_growth) return *measured->resident_growth - measured->memory.peak;
  return std::nullopt;
}

}  // namespace

Json memory_json(const plan::Comparison& comparison) {
  const plan::Plan& plan = comparison.plan;
  const std::optional<plan::Measured>& measured = comparison.measured;
  const Memory* memory = measured ? &measured->memory : nullptr;
  const auto measured_or_null = [&](std::optional<int64_t> plan::Measured::*figure) {
    return measured ? (*measured).*figure : std::nullopt;
  };

  Json json = {{"schema_version", kMemorySchemaVersion}, {"target", target_json(plan.target)}};
  json["workload"] = workload_json(plan);
  json["peak"] = {{"analytic", plan.analytic.peak},
                  {"dry_run", plan.dry_run.peak},
                  {"measured", memory ? Json(memory->peak) : Json(nullptr)}};
  json["components"] = component_figures(
      plan.analytic.at_peak, plan.dry_run, memory, [](const Memory& of) -> const auto& { return of.at_peak; });
  json["maximum"] = component_figures(
      plan.analytic.maximum, plan.dry_run, memory, [](const Memory& of) -> const auto& { return of.maximum; });
  json["phases"] = phase_figures(plan.dry_run, memory);
  json["allocated"] = allocator_figure(plan.gpu, &plan::GpuBytes::allocated, &plan::GpuBytes::allocated_range,
                                       measured_or_null(&plan::Measured::allocated));
  json["reserved"] = allocator_figure(plan.gpu, &plan::GpuBytes::reserved, &plan::GpuBytes::reserved_range,
                                      measured_or_null(&plan::Measured::reserved));
  const bool bounded = plan.gpu || plan.target.capacity_bytes > 0;
  json["fits"] = bounded ? Json(plan::missing_bytes(plan) == 0) : Json(nullptr);
  json["fit"] = fit_name(plan::fit_of(plan));
  // What the capacity is held against; of a GPU that it ran out on, what the smallest that would do has.
  const int64_t missing = plan::missing_bytes(plan);
  json["needed"] = missing > 0 ? plan.target.capacity_bytes + missing : plan::needed_bytes(plan);
  json["missing"] = bounded ? Json(missing) : Json(nullptr);
  json["device"] = {{"dry_run", device_bytes(plan)},
                    {"measured", or_null(measured_or_null(&plan::Measured::device_growth))}};
  json["offloaded"] = {{"dry_run", plan.offloaded}, {"measured", measured ? Json(measured->offloaded) : Json(nullptr)}};
  // Of a CPU: an upper bound for this machine's instruction set and the plan's threads.
  const bool on_cpu = plan.target.device == config::Device::kCpu;
  json["kernel_scratch"] = {{"dry_run", on_cpu ? Json(plan.dry_run.kernel_scratch) : Json(nullptr)},
                            {"measured", memory ? Json(memory->kernel_scratch) : Json(nullptr)}};
  json["peak_with_scratch"] = {{"dry_run", on_cpu ? Json(plan.dry_run.peak_with_scratch) : Json(nullptr)},
                               {"measured", memory ? Json(memory->peak_with_scratch) : Json(nullptr)}};
  json["resident"] = {{"dry_run", plan.gpu ? Json(nullptr) : Json(plan::most_resident_growth(plan))},
                      {"measured", or_null(measured_or_null(&plan::Measured::resident_growth))}};
  json["unexplained"] = or_null(unexplained(plan, measured));
  json["derivation"] = derivation_json(plan.analytic);
  json["rules_of_thumb"] = Json::array();
  for (const plan::RuleOfThumb& rule : plan::rules_of_thumb(comparison)) {
    Json value = {{"name", rule.name},       {"bytes", rule.bytes},   {"relative_error", rule.relative_error},
                  {"against", rule.against}, {"reason", rule.counts}, {"here", rule.here}};
    // A rule that is meant for such a run is the one to show beside the figure.
    if (rule.meant) value["component"] = rule.against == "weights" ? "weights" : "total";
    json["rules_of_thumb"].push_back(std::move(value));
  }
  return json;
}

}  // namespace fathom::report
