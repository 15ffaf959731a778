// The device of this process, as the config and the command line want it, with its ledger.
#pragma once

#include <string>

#include "app/invocation.h"
#include "ledger/cuda.h"
#include "train/trainer.h"

namespace fathom::app {

struct Session {
  train::Placement placement;
  bool phantom = false;  // the CUDA device is a phantom
};

// Installs the CPU's ledger, sets the number of threads, opens CUDA if the loader brought it, and holds the device that
// runs to memory_budget. Call once, before any tensor exists.
Session open_session(const Invocation& invocation);

// Of the device that open_session opened.
const ledger::Ledger& ledger_of(const Invocation& invocation);

// What a phantom must pretend to be this device; it need not be in configs/gpus.yaml.
config::GpuSpec spec_of(const ledger::CudaDevice& device);

}  // namespace fathom::app
