// What the tests let happen on a phantom GPU, each scenario with what it saw as JSON.
#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sys/mman.h>

#include <array>

#include "base/error.h"
#include "base/json_value.h"
#include "ledger/cuda.h"
#include "phantom_gpu/gpu.h"
#include "tests/phantom_gpu/gpu_probe/matrix.h"
#include "tests/phantom_gpu/gpu_probe/predictions.h"
#include "tests/phantom_gpu/gpu_probe/training.h"

namespace fathom::phantom {

ledger::CudaDevice& cuda_device() {
  static const auto open = reinterpret_cast<decltype(&fathom_cuda_device)>(dlsym(RTLD_DEFAULT, "fathom_cuda_device"));
  if (!open) throw Error("libfathom_cuda.so is not loaded");
  return *open();
}

namespace {

at::Tensor bytes_on_gpu(int64_t count) { return at::empty({count}, at::TensorOptions(at::kCUDA).dtype(at::kByte)); }

Json device() {
  const ledger::CudaDevice& cuda = cuda_device();
  return {{"name", cuda.name()},
          {"compute_capability", cuda.compute_capability()},
          {"total_bytes", cuda.total_bytes()},
          {"free_bytes", cuda.free_bytes()},
          {"cudnn_attention", at::globalContext().userEnabledCuDNNSDP()}};
}

// Fills the memory, fails, and goes on.
Json out_of_memory() {
  ledger::CudaDevice& cuda = cuda_device();
  std::vector<at::Tensor> tensors;
  std::string message;
  try {
    while (tensors.size() < 1000) tensors.push_back(bytes_on_gpu((int64_t{128} << 20) + 1));
  } catch (const c10::OutOfMemoryError& error) {
    message = error.what_without_backtrace();
  }
  const int64_t live_when_full = cuda.ledger().live_bytes();
  const size_t fitted = tensors.size();
  tensors.clear();
  const at::Tensor afterwards = bytes_on_gpu(int64_t{1} << 30).add_(1);
  return {{"message", message},
          {"fitted", fitted},
          {"live_when_full", live_when_full},
          {"live_afterwards", cuda.ledger().live_bytes()},
          {"requested_afterwards", cuda.statistics().requested},
          {"out_of_memory", cuda.statistics().out_of_memory}};
}

// A block that another stream still uses when its tensor dies.
Json record_stream() {
  ledger::CudaDevice& cuda = cuda_device();
  Json live = Json::array(), requested = Json::array();
  const auto note = [&] {
    live.push_back(cuda.ledger().live_bytes());
    requested.push_back(cuda.statistics().requested);
  };
  at::Tensor tensor = bytes_on_gpu(1000);
  tensor.record_stream(c10::cuda::getStreamFromPool());
  note();
  tensor.reset();
  note();
  const at::Tensor next = bytes_on_gpu(500);  // an allocation settles what streams are done with
  note();
  return {{"live", live}, {"requested", requested}};
}

// From memory that would fault if it were read, to the device; and back from it.
Json copies() {
  constexpr int64_t kBytes = int64_t{1} << 30;
  void* unreadable = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (unreadable == MAP_FAILED) throw Error("no address space for the test");
  const at::Tensor host = at::from_blob(unreadable, {kBytes}, at::TensorOptions().dtype(at::kByte));
  const at::Tensor on_gpu = bytes_on_gpu(kBytes);
  on_gpu.copy_(host);
  const at::Tensor back = on_gpu.slice(0, 0, 1000).cpu();
  return {{"sum_of_1000_read_back", back.sum().item<int64_t>()},
          {"beyond_the_end", cudaGetErrorName(cudaMemcpy(back.data_ptr(), on_gpu.const_data_ptr(),
                                                         (size_t{1} << 30) + 1, cudaMemcpyDeviceToHost))}};
}

// What a real GPU of this kind says to each launch.
Json launches() {
  static const char kernel = 0;
  Json answers = Json::array();
  const auto launch = [&](dim3 grid, dim3 block, size_t shared_bytes) {
    answers.push_back(cudaGetErrorName(cudaLaunchKernel(&kernel, grid, block, nullptr, shared_bytes, nullptr)));
  };
  launch({1, 1, 1}, {1024, 1, 1}, 0);
  launch({1, 1, 1}, {1025, 1, 1}, 0);
  launch({1, 1, 1}, {32, 32, 2}, 0);
  launch({1, 1, 1}, {1, 1, 65}, 0);
  launch({0, 1, 1}, {1, 1, 1}, 0);
  launch({0x7fffffff, 65535, 65535}, {1, 1, 1}, 0);
  launch({1, 65536, 1}, {1, 1, 1}, 0);
  launch({1, 1, 1}, {1, 1, 1}, 48 << 10);
  launch({1, 1, 1}, {1, 1, 1}, (48 << 10) + 1);
  const auto opt_in = [&](int bytes) {
    answers.push_back(
        cudaGetErrorName(cudaFuncSetAttribute(&kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)));
  };
  opt_in((227 << 10) + 1);
  opt_in(227 << 10);
  launch({1, 1, 1}, {1, 1, 1}, 227 << 10);
  cudaGetLastError();
  return answers;
}

// What a real GPU says of work that is recorded, and of what may not be.
Json recordings() {
  static const char kernel = 0;
  const at::Tensor on_gpu = bytes_on_gpu(1000);
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replayed = nullptr;
  size_t nodes = 0;
  Json answers = Json::array();
  const auto note = [&](cudaError_t answer) { answers.push_back(cudaGetErrorName(answer)); };
  note(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal));
  note(cudaStreamCreate(&stream));
  note(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  const int64_t before = phantom_gpu::launches_of_all(), recorded_before = phantom_gpu::recorded_of_all();
  for (int i = 0; i < 3; ++i) note(cudaLaunchKernel(&kernel, {1, 1, 1}, {32, 1, 1}, nullptr, 0, stream));
  note(cudaStreamEndCapture(stream, &graph));
  note(cudaGraphGetNodes(graph, nullptr, &nodes));
  note(cudaGraphInstantiateWithFlags(&replayed, graph, 0));
  note(cudaGraphLaunch(replayed, stream));
  answers.push_back(nodes);
  answers.push_back(phantom_gpu::launches_of_all() - before);
  answers.push_back(phantom_gpu::recorded_of_all() - recorded_before);
  std::array<char, 8> host{};
  note(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  note(cudaMemcpyAsync(host.data(), on_gpu.const_data_ptr(), host.size(), cudaMemcpyDeviceToHost, stream));
  note(cudaStreamEndCapture(stream, &graph));
  note(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  note(cudaStreamSynchronize(stream));
  note(cudaStreamEndCapture(stream, &graph));
  note(cudaStreamSynchronize(stream));
  note(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  note(cudaLaunchKernel(&kernel, {1, 1, 1}, {32, 1, 1}, nullptr, 0, nullptr));
  note(cudaStreamEndCapture(stream, &graph));
  cudaGetLastError();
  return answers;
}

// What is left of a recording that was broken.
Json broken_recording() {
  ledger::CudaDevice& cuda = cuda_device();
  Json answers = Json::array();
  for (int i = 0; i < 2; ++i) {
    cuda.take_recordable_stream();
    const auto copies_to_the_host = [] { bytes_on_gpu(1000).cpu(); };
    try {
      cuda.record(copies_to_the_host);
      answers.push_back("recorded");
    } catch (const c10::Error&) {
      answers.push_back("refused");
    }
    cuda.start_over();
    answers.push_back(cuda.statistics().reserved);
  }
  return answers;
}

Json play(const Json& request) {
  const std::string scenario = request.at("scenario");
  if (scenario == "device") return device();
  if (scenario == "out of memory") return out_of_memory();
  if (scenario == "record stream") return record_stream();
  if (scenario == "copies") return copies();
  if (scenario == "launches") return launches();
  if (scenario == "recordings") return recordings();
  if (scenario == "broken recording") return broken_recording();
  if (scenario == "training") return play_training(request);
  if (scenario == "matrix") return play_matrix(request);
  if (scenario == "predictions") return predict_sample(request);
  throw Error("no scenario '" + scenario + "'");
}

}  // namespace
}  // namespace fathom::phantom

extern "C" __attribute__((visibility("default"))) fathom::Json play_scenario(const fathom::Json& request) {
  if (request.contains("allocator_settings")) {
    c10::CachingAllocator::setAllocatorSettings(request.at("allocator_settings").get<std::string>());
  }
  try {
    return fathom::phantom::play(request);
  } catch (const c10::Error& error) {
    throw fathom::Error(error.what_without_backtrace());
  }
}
