// `fathom train` before LibTorch: which process of the run this is, and where none is, the start of all.
#include <cstdlib>
#include <iterator>

#include "app/commands/train.h"
#include "app/machine.h"
#include "base/error.h"
#include "base/numbers.h"
#include "config/checks.h"
#include "launch/gpu.h"
#include "launch/start.h"

namespace fathom::app {
namespace {

// Before the driver is asked for GPUs: it reads this once.
void take_gpu(const launch::Processes& processes) {
  const std::optional<std::string> gpu = launch::gpu_of(processes, std::getenv("CUDA_VISIBLE_DEVICES"));
  if (gpu) ::setenv("CUDA_VISIBLE_DEVICES", gpu->c_str(), /*overwrite=*/1);
}

// processes: that this one is to start on this machine.
void refuse_fewer_gpus(int64_t processes) {
  const int64_t gpus = std::ssize(this_gpus());
  if (gpus >= processes) return;
  throw UsageError(std::to_string(processes) + " processes are to train here, and NVIDIA's driver lists " +
                       format_counted(gpus, "GPU") + ": each takes one",
                   "lower num_processes, or set device: cpu");
}

}  // namespace

void complete_train(Train& train) {
  const launch::Environment environment = [](const char* variable) -> const char* { return std::getenv(variable); };
  train.processes = launch::processes_of(environment);
  const std::optional<launch::Processes>& told = train.processes;
  if (!told) train.node = launch::node_of(environment);
  if (told) speak_as(*told);
  if (told && told->size > 1) {
    for (std::filesystem::path* file : {&train.segments, &train.trace, &train.planned_trace}) {
      if (!file->empty()) *file += ".rank" + std::to_string(told->rank);
    }
  }
  config::RunConfig& config = train.config;
  std::set<std::string> given;
  config = train.words.read(train.name, config::Purpose::kTrain, &given);
  train.own_accumulation = given.count("gradient_accumulation_steps") > 0;
  if (given.count("resume_from_checkpoint") == 0 && launch::restarts_of(environment) > 0) {
    config.resume_from_checkpoint = "auto";
    log_info("its launcher has started the run again: resume_from_checkpoint is auto");
  }
  train.phantom_gpu = train.pretended.find();
  if (told && !train.phantom_gpu && config.device != config::Device::kCpu) take_gpu(*told);
  choose_device(train);
  if (!train.trace.empty() && train.device == config::Device::kCpu) {
    throw UsageError("--trace writes what a GPU's caching allocator does, and the run is on the CPU",
                     "add --phantom-gpu NAME, or remove --trace");
  }
  if (!train.planned_trace.empty() && train.trace.empty()) {
    throw UsageError("--planned-trace is for the events that --trace is held against", "add --trace FILE");
  }
  const int64_t launched = told ? told->size : train.node ? train.node->size : 1;
  if (launched > 1 && config.num_processes > 1 && config.num_processes != launched) {
    throw UsageError("num_processes is " + std::to_string(config.num_processes) + ", and " +
                         (told ? told->launcher + " has started " : "PET_NNODES times PET_NPROC_PER_NODE is ") +
                         std::to_string(launched),
                     "remove num_processes: the launcher says how many there are");
  }
  if (launched > 1) config.num_processes = launched;
  take_ddp_alone(config);
  if (config.num_processes == 1 && config.strategy == config::Strategy::kFsdp) {
    throw UsageError("strategy is fsdp, and one process has no others to share the model with",
                     "set num_processes, or remove strategy");
  }
  config::Problems problems("");
  config::check_together(config, {}, config::Purpose::kTrain, problems);  // again, with as many as were launched
  problems.throw_if_any();
  if (!told && config.num_processes > 1 && !train.phantom_gpu && train.device == config::Device::kCuda) {
    refuse_fewer_gpus(train.node ? train.node->processes : config.num_processes);
  }
}

int run_processes(const Train& train) {
  if (train.processes || train.config.num_processes == 1) return run_in_engine(train);
  const int64_t count = train.config.num_processes;
  return launch::start_processes(train.node.value_or(launch::Node{.processes = count, .size = count}), train.arguments);
}

}  // namespace fathom::app
