// `fathom train` before LibTorch: which process of the run this is, and where none is, the start of all.
#include <cstdlib>

#include "app/commands/train.h"
#include "base/error.h"
#include "launch/start.h"

namespace fathom::app {

void complete_train(Train& train) {
  train.processes = launch::processes_of([](const char* variable) -> const char* { return std::getenv(variable); });
  const std::optional<launch::Processes>& told = train.processes;
  if (told) speak_as(*told);
  config::RunConfig& config = train.config;
  config = train.words.read(train.name, config::Purpose::kTrain);
  train.phantom_gpu = train.pretended.find();
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
  if (config.num_processes > 1 && train.device == config::Device::kCuda) {
    throw UsageError("num_processes is " + std::to_string(config.num_processes) +
                         ", and several processes train on CPUs alone for now",
                     "set device: cpu, or train in one process");
  }
}

int run_processes(const Train& train) {
  if (train.processes || train.config.num_processes == 1) return run_in_engine(train);
  return launch::start_processes(train.config.num_processes, train.arguments);
}

}  // namespace fathom::app
