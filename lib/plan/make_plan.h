// From a run's config and data to its plan: the closed formulas and the dry run, for this machine's CPU or for a named
// GPU.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "config/devices.h"
#include "config/run_config.h"
#include "model/shape.h"
#include "plan/plan.h"
#include "train/trainer.h"
#include "weights/folder.h"

namespace fathom::plan {

// What is planned. folder: may lack weights; then the model is initialised instead of loaded.
struct Subject {
  const config::RunConfig& config;
  const model::ModelShape& shape;
  const weights::ModelFolder& folder;
  Workload workload;
};

// The attention kernel's name for the type in which the config computes, on a device of this process (a phantom one
// too).
std::string attention_kernel(const config::RunConfig& config, const model::ModelShape& shape, at::Device device);

// In this process, on the phantom device. capacity_bytes: of the machine's memory; 0: unknown.
Plan plan_cpu(const Subject& subject, int64_t capacity_bytes);

// How a phantom GPU is asked: a child process that runs over the stub libraries gets `request` and gives
// `answer_dry_run` of it.
struct PhantomQuestion {
  config::GpuSpec gpu;
  bool unlimited = false;  // memory without end
  int placement = 0;       // where segments lie in the address space: other numbers, other addresses
  Json request;
};
// Called from several threads at once.
using AskPhantom = std::function<Json(const PhantomQuestion&)>;

// For a GPU that need not be there. Asks at the GPU's real capacity first; where that runs out, again without limit.
// placements: how many placements of segments are tried, side by side, for the ranges of allocated and reserved bytes.
// The plan's seconds are the child's own, its start apart.
Plan plan_gpu(const Subject& subject, const config::GpuSpec& gpu, int placements, const AskPhantom& ask);
// The child's side: plays the request on the CUDA device of this process.
Json answer_dry_run(const Json& request, const train::Placement& placement);

}  // namespace fathom::plan
