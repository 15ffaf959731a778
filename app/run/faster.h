// Settings of how a run is computed, not of what it computes, with which a GPU is expected to be faster.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/invocation.h"
#include "base/json.h"
#include "plan/outlook.h"

namespace fathom::app {

struct Faster {
  std::string settings;  // "cuda_graphs: true"
  double step_seconds = 0;
  int64_t reserved = 0;  // at most, by the GPU's allocator
};

using PlanOf = std::function<plan::Plan(const arch::Run&)>;

// Of cuDNN's attention, CUDA graphs and both, those whose plan, made by plan_of, fits and ends a step at least a
// twentieth sooner than what comes before. Nothing where the GPU's operators were not measured, where batches have many
// shapes, each of which has to be prepared, nor where the plan itself took long. question: of the plan's own
// outlook.
std::vector<Faster> faster_settings(const arch::Run& run, const config::GpuSpec& gpu, const plan::Plan& plan,
                                    const plan::Outlook& outlook, const plan::OutlookQuestion& question,
                                    const PlanOf& plan_of);

// Empty where there are none.
std::string describe_faster(const std::vector<Faster>& faster, const plan::Outlook& outlook);
Json to_json(const std::vector<Faster>& faster);

}  // namespace fathom::app
