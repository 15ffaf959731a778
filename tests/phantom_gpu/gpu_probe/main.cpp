// A process on a phantom GPU: loads the stubs, then LibTorch, then the scenarios, as the program does for CUDA runs.
// One JSON request on stdin, one JSON answer on stdout.
#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/json_value.h"
#include "phantom_gpu/gpu.h"

namespace {

using fathom::Json;

void* load(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) throw fathom::Error(path + " cannot be loaded: " + dlerror());
  return library;
}

Json loaded_libraries() {
  Json paths = Json::array();
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* into) {
        static_cast<Json*>(into)->push_back(info->dlpi_name);
        return 0;
      },
      &paths);
  return paths;
}

Json answer(const Json& request) {
  const std::string folder = FATHOM_BINARY_DIR "/lib/";
  const Json& gpu = request.at("gpu");
  fathom::phantom_gpu::load_stubs(folder + "fathom-phantom", {.name = gpu.at("name"),
                                                              .compute_capability = gpu.at("compute_capability"),
                                                              .multiprocessors = gpu.at("multiprocessors"),
                                                              .memory_bytes = gpu.at("memory_bytes"),
                                                              .unlimited = gpu.at("unlimited"),
                                                              .placement = gpu.at("placement"),
                                                              .segments = gpu.value("segments", "")});
  load(FATHOM_TORCH_DIR "/lib/libtorch_cpu.so");
  load(FATHOM_TORCH_DIR "/lib/libtorch_cuda.so");
  void* scenarios = load(FATHOM_BINARY_DIR "/tests/libphantom_gpu_scenarios.so");
  load(folder + "libfathom_cuda.so");
  const std::string kernels = folder + "libfathom_cuda_kernels.so";
  if (std::filesystem::exists(kernels)) load(kernels);
  if (request.at("scenario") == "libraries") return loaded_libraries();
  const auto play = reinterpret_cast<Json (*)(const Json&)>(dlsym(scenarios, "play_scenario"));
  if (!play) throw fathom::Error(dlerror());
  return play(request);
}

}  // namespace

int main() {
  try {
    const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
    std::cout << answer(fathom::parse_json(text, "the request")) << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
