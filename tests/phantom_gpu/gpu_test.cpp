// LibTorch's CUDA code on the phantom GPU: each test is a process (gpu_probe) that loads the stubs before LibTorch.
#include "phantom_gpu/gpu.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json_value.h"
#include "phantom_gpu/child.h"

namespace fathom::phantom_gpu {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kProbe[] = FATHOM_BINARY_DIR "/tests/phantom_gpu/gpu_probe/phantom_gpu_probe";

const PhantomGpu kH100 = {};
const PhantomGpu kA100 = {.name = "A100", .compute_capability = "8.0", .multiprocessors = 108};
const PhantomGpu kRtx5090 = {.name = "RTX 5090", .compute_capability = "12.0", .multiprocessors = 170};

Json play(const PhantomGpu& gpu, const std::string& scenario, Json request = Json::object()) {
  request["scenario"] = scenario;
  request["gpu"] = {{"name", gpu.name},
                    {"compute_capability", gpu.compute_capability},
                    {"multiprocessors", gpu.multiprocessors},
                    {"memory_bytes", gpu.memory_bytes},
                    {"unlimited", gpu.unlimited},
                    {"placement", gpu.placement}};
  return run_child(kProbe, {}, request, std::chrono::minutes(2));
}

struct Precision {
  const char* name;
  const char* dtype;
  bool autocast, checkpointing, lora;
};

Json training_request(const Precision& precision) {
  return {{"shape", "small"},
          {"steps", 3},
          {"rows", 4},
          {"length", 512},
          {"dtype", precision.dtype},
          {"bf16", precision.autocast},
          {"gradient_checkpointing", precision.checkpointing},
          {"lora", precision.lora},
          {"compare", true}};
}
constexpr Precision kFp32 = {"fp32", "float32", false, false, false};
constexpr Precision kAutocast = {"autocast", "float32", true, false, false};

TEST(LoadStubs, RefusesWhatItCannotPretend) {
  EXPECT_THROW(load_stubs("/nowhere", {.compute_capability = "6.1"}), Error);
  EXPECT_THROW(load_stubs("/nowhere", {.multiprocessors = 0}), Error);
  EXPECT_THROW(load_stubs("/nowhere", {.memory_bytes = 0}), Error);
}

TEST(VariablesOf, ShowAllDevicesWhateverTheShellHides) {
  const std::filesystem::path folder = FATHOM_BINARY_DIR "/lib/fathom-phantom";
  ASSERT_EQ(setenv("CUDA_VISIBLE_DEVICES", "5", /*overwrite=*/1), 0);
  EXPECT_EQ(variables_of(folder, kH100, {.report = "told", .devices = 3}).at("CUDA_VISIBLE_DEVICES"), "0,1,2");
  ASSERT_EQ(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
  EXPECT_EQ(variables_of(folder, kH100, {.report = "told", .devices = 3}).count("CUDA_VISIBLE_DEVICES"), 0U);
}

TEST(PhantomGpu, SatisfiesEveryCudaLibraryWithAStub) {
  const std::vector<std::string> loaded = play(kH100, "libraries");
  EXPECT_THAT(loaded, Contains(HasSubstr("/libtorch_cuda.so")));
  EXPECT_THAT(loaded, Contains(HasSubstr("fathom-phantom/libcudart.so.13")));
  EXPECT_THAT(loaded, Contains(HasSubstr("fathom-phantom/libcupti.so.13")));
  EXPECT_THAT(loaded, Contains(HasSubstr("fathom-phantom/libcublas.so.13")));
  EXPECT_THAT(loaded, Each(Not(HasSubstr("/nvidia/"))));
}

TEST(PhantomGpu, IsTheGpuThatWasAskedFor) {
  PhantomGpu gpu = kRtx5090;
  gpu.memory_bytes = 1234567890;
  const Json device = play(gpu, "device");
  EXPECT_EQ(device["name"], "Phantom RTX 5090");
  EXPECT_EQ(device["compute_capability"], "12.0");
  EXPECT_EQ(device["total_bytes"], 1234567890);
  EXPECT_EQ(device["free_bytes"], 1234567890);
  EXPECT_FALSE(device["cudnn_attention"]);
}

TEST(PhantomGpu, HasMuchMemoryWithoutLimit) {
  PhantomGpu gpu = kH100;
  gpu.unlimited = true;
  EXPECT_EQ(play(gpu, "device")["total_bytes"], kUnlimitedBytes);
}

TEST(PhantomGpu, RunsOutOfMemoryAndGoesOn) {
  PhantomGpu gpu = kH100;
  gpu.memory_bytes = int64_t{2} << 30;
  const Json seen = play(gpu, "out of memory");
  EXPECT_THAT(seen["message"], AllOf(HasSubstr("CUDA out of memory"), HasSubstr("total capacity of 2.00 GiB")));
  EXPECT_EQ(seen["fitted"], 15);  // of 128 MiB + 1 byte in segments of 130 MiB
  EXPECT_EQ(seen["live_when_full"], 15 * ((int64_t{128} << 20) + 1));
  EXPECT_EQ(seen["live_afterwards"], int64_t{1} << 30);
  EXPECT_EQ(seen["requested_afterwards"], int64_t{1} << 30);
  EXPECT_EQ(seen["out_of_memory"], 1);
}

// requested_bytes falls when the other stream is done with the block, not when its tensor dies; the ledger likewise.
TEST(PhantomGpu, CountsABlockUntilItsLastStreamIsDone) {
  const Json seen = play(kH100, "record stream");
  EXPECT_EQ(seen["requested"], Json({1000, 1000, 500}));
  EXPECT_EQ(seen["live"], seen["requested"]);
}

TEST(PhantomGpu, NeverTouchesWhatIsCopiedToTheDevice) {
  const Json seen = play(kH100, "copies");
  EXPECT_EQ(seen["sum_of_1000_read_back"], 0);
  EXPECT_EQ(seen["beyond_the_end"], "cudaErrorInvalidValue");
}

TEST(PhantomGpu, RefusesLaunchesThatNoGpuCanRun) {
  const Json expected = {"cudaSuccess",                    // 1,024 threads
                         "cudaErrorInvalidConfiguration",  // 1,025 threads
                         "cudaErrorInvalidConfiguration",  // 32 x 32 x 2 threads
                         "cudaErrorInvalidConfiguration",  // 65 threads deep
                         "cudaErrorInvalidConfiguration",  // an empty grid
                         "cudaSuccess",                    // the largest grid
                         "cudaErrorInvalidConfiguration",  // 65,536 blocks high
                         "cudaSuccess",                    // 48 KiB of shared memory
                         "cudaErrorInvalidValue",          // one byte more, without opting in
                         "cudaErrorInvalidValue",          // opting in to more than 227 KiB
                         "cudaSuccess",                    // opting in to 227 KiB
                         "cudaSuccess"};                   // using it
  EXPECT_EQ(play(kH100, "launches"), expected);
}

TEST(PhantomGpu, RecordsWhatAStreamIsGiven) {
  const std::string success = "cudaSuccess", unsupported = "cudaErrorStreamCaptureUnsupported";
  const Json expected = {unsupported,  // LibTorch's own first stream
                         success,
                         success,
                         success,
                         success,
                         success,  // a stream, begun, three kernels
                         success,
                         success,
                         success,
                         success,  // ended, its nodes, made, replayed
                         3,
                         4,
                         3,  // nodes; launches with the replay; recorded
                         success,
                         unsupported,
                         "cudaErrorStreamCaptureInvalidated",  // memory of the host
                         success,
                         unsupported,
                         "cudaErrorStreamCaptureInvalidated",  // waiting
                         success,
                         success,
                         success,
                         "cudaErrorStreamCaptureInvalidated"};  // another stream
  EXPECT_EQ(play(kH100, "recordings"), expected);
}

TEST(PhantomGpu, StartsOverBehindABrokenRecording) {
  EXPECT_EQ(play(kH100, "broken recording"), Json({"refused", 0, "refused", 0}));
}

class Training : public ::testing::TestWithParam<Precision> {};

TEST_P(Training, IsCountedByTheLedgerAsByTheAllocator) {
  const Json seen = play(kH100, "training", training_request(GetParam()));
  EXPECT_GT(seen["events"], 1000);
  EXPECT_EQ(seen["differences"], 0);
  for (const Json& end : seen["ends"]) EXPECT_EQ(end[0], end[1]);
  EXPECT_EQ(seen["peak_live"], seen["peak_requested"]);
  EXPECT_TRUE(seen["last_steps_equal"]);
  EXPECT_GT(seen["requests"], 100);
  EXPECT_EQ(seen["left"], Json({0, 0}));
}

INSTANTIATE_TEST_SUITE_P(Precisions, Training,
                         ::testing::Values(kFp32, kAutocast, Precision{"bf16", "bfloat16", false, false, false},
                                           Precision{"fp32_checkpointing", "float32", false, true, false},
                                           Precision{"autocast_checkpointing", "float32", true, true, false},
                                           Precision{"lora", "bfloat16", true, false, true}),
                         [](const auto& precision) { return precision.param.name; });

// cuBLAS's default workspaces of LibTorch 2.11, for the forward thread and for autograd's: 32 MiB each on 9.0, else
// 8,519,680 bytes.
TEST(PhantomGpu, LabelsTheWorkspacesOfItsArchitecture) {
  EXPECT_EQ(play(kH100, "training", training_request(kAutocast))["kernels"], 2 * 33554432);
  EXPECT_EQ(play(kA100, "training", training_request(kAutocast))["kernels"], 2 * 8519680);
  EXPECT_EQ(play(kRtx5090, "training", training_request(kAutocast))["kernels"], 2 * 8519680);
}

TEST(PhantomGpu, PlacesSegmentsByItsSeed) {
  PhantomGpu gpu = kH100;
  const Json ascending = play(gpu, "training", training_request(kAutocast));
  for (uint64_t seed : {1, 2, 3}) {
    gpu.placement = seed;
    const Json scattered = play(gpu, "training", training_request(kAutocast));
    EXPECT_EQ(scattered["peak_requested"], ascending["peak_requested"]);
    EXPECT_EQ(scattered["ends"], ascending["ends"]);
    EXPECT_GE(scattered["peak_reserved"], scattered["peak_allocated"]);
    EXPECT_EQ(scattered["peak_reserved"], play(gpu, "training", training_request(kAutocast))["peak_reserved"]);
  }
}

TEST(PhantomGpu, GrowsExpandableSegments) {
  Json request = training_request(kAutocast);
  const Json fixed = play(kH100, "training", request);
  request["allocator_settings"] = "expandable_segments:True";
  const Json expandable = play(kH100, "training", request);
  EXPECT_EQ(expandable["differences"], 0);
  EXPECT_EQ(expandable["left"], Json({0, 0}));
  EXPECT_EQ(expandable["peak_requested"], fixed["peak_requested"]);
  EXPECT_LT(expandable["peak_reserved"], fixed["peak_reserved"]);
}

TEST(PhantomGpu, FailsAStepThatDoesNotFit) {
  PhantomGpu gpu = kH100;
  gpu.memory_bytes = int64_t{2} << 30;
  try {
    play(gpu, "training", training_request(kFp32));
    FAIL() << "2.5 GB fitted into 2 GiB";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("CUDA out of memory"));
  }
}

// Llama 3 70B, sequence 8,192: 141 GB of weights and as much again three times, beyond any GPU.
TEST(PhantomGpu, PlaysALargeModelWithinASecond) {
  Json request = training_request({"bf16", "bfloat16", false, true, false});
  request.update({{"shape", "70B"}, {"rows", 1}, {"length", 8192}, {"compare", false}});
  PhantomGpu gpu = kH100;
  gpu.unlimited = true;
  const Json seen = play(gpu, "training", request);
  EXPECT_GT(seen["peak_requested"], int64_t{500} * 1000 * 1000 * 1000);
  EXPECT_EQ(seen["left"], Json({0, 0}));
  EXPECT_LT(seen["resident_growth_bytes"], 150 << 20);
  // Three steps here; twice the second that two of them may take, because other tests run beside this one.
  EXPECT_LT(seen["seconds"], 2.0);
}

}  // namespace
}  // namespace fathom::phantom_gpu
