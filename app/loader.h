// Brings LibTorch and the engine into the process, and CUDA's part where it is needed.
#pragma once

#include <filesystem>
#include <string>

#include "app/engine.h"
#include "phantom_gpu/gpu.h"

namespace fathom::app {

struct TorchFolder {
  std::filesystem::path path;  // holds lib/libtorch_cpu.so
  std::string version;         // "2.11.0+cu130"
};

// The folder in $FATHOM_TORCH, else the one that this program was built with, else the `torch` of this machine's
// python3. Throws Error that says what was tried when none holds LibTorch 2.11; a wrong $FATHOM_TORCH is refused at
// once.
TorchFolder find_torch();

// A listed GPU as the stubs pretend it, with segments at ascending addresses.
phantom_gpu::PhantomGpu pretended(const config::GpuSpec& spec);

// Loads LibTorch and libfathom_engine.so, for invocation.device kCuda also LibTorch's CUDA part and libfathom_cuda.so,
// for a phantom GPU its stubs before all; returns the engine's door.
EngineMain* load_engine(const Invocation& invocation);

}  // namespace fathom::app
