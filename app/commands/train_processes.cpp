// `fathom train` before LibTorch: which process of the run this is, and where none is, the start of all.
#include <cstdlib>
#include <iterator>

#include "app/commands/train.h"
#include "app/machine.h"
#include "base/error.h"
#include "base/numbers.h"
#include "launch/gpu.h"
#include "launch/start.h"

namespace fathom::app {
namespace {

// Before the driver is asked for GPUs: it reads this once.
void take_gpu(const launch::Processes& processes) {
  const std::optional<std::string> gpu = launch::gpu_of(processes, std::getenv("CUDA_VISIBLE_DEVICES"));
  if (gpu) ::setenv("CUDA_VISIBLE_DEVICES", gpu->c_str(), /*overwrite=*/1);
}

}  // namespace

void complete_train(Train& train) {
  train.processes = launch::processes_of([](const char* variable) -> const char* { return std::getenv(variable); });
  const std::optional<launch::Processes>& told = train.processes;
  if (told) speak_as(*told);
  config::RunConfig& config = train.config;
  std::set<std::string> given;
  config = train.words.read(train.name, config::Purpose::kTrain, &given);
  train.own_accumulation = given.count("gradient_accumulation_steps") > 0;
  train.phantom_gpu = train.pretended.find();
  if (told && !train.phantom_gpu && config.device != config::Device::kCpu) take_gpu(*told);
  choose_device(train);
  if (told && config.num_processes > 1 && config.num_processes != told->size) {
    throw UsageError("num_processes is " + std::to_string(config.num_processes) + ", and " + told->launcher +
                         " has started " + std::to_string(told->size),
                     "remove num_processes: the launcher says how many there are");
  }
  if (told) config.num_processes = told->size;
  if (config.num_processes == 1 && config.strategy == config::Strategy::kFsdp) {
    throw UsageError("strategy is fsdp, and one process has no others to share the model with",
                     "set num_processes, or remove strategy");
  }
  if (told || config.num_processes == 1 || train.phantom_gpu || train.device != config::Device::kCuda) return;
  if (const int64_t gpus = std::ssize(this_gpus()); gpus < config.num_processes) {
    throw UsageError("num_processes is " + std::to_string(config.num_processes) + ", and NVIDIA's driver lists " +
                         format_counted(gpus, "GPU") + " here: each process takes one",
                     "lower num_processes, or set device: cpu");
  }
}

int run_processes(const Train& train) {
  if (train.processes || train.config.num_processes == 1) return run_in_engine(train);
  return launch::start_processes(train.config.num_processes, train.arguments);
}

}  // namespace fathom::app
