// The list of GPUs: the shipped one is sound, and a wrong one is told everything at once.
#include "config/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <regex>

#include "base/error.h"
#include "base/file.h"

namespace fathom::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string device_problems(const std::string& yaml) {
  const auto path = std::filesystem::temp_directory_path() / ("fathom_gpus_" + std::to_string(getpid()));
  write_file_atomically(path, yaml);
  std::string said = "none";
  try {
    load_gpus(path);
  } catch (const UsageError& error) {
    said = error.what();
  }
  std::filesystem::remove(path);
  return said;
}

std::string refusal(const std::map<std::string, GpuSpec>& gpus, const std::string& name) {
  try {
    return "found " + find_gpu(gpus, name).name;
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(Devices, TheShippedListIsSound) {
  const auto gpus = load_gpus(FATHOM_SOURCE_DIR "/configs/gpus.yaml");
  const GpuSpec& h100 = find_gpu(gpus, "h100");
  EXPECT_EQ(h100.name, "H100");
  EXPECT_EQ(h100.compute_capability, "9.0");
  EXPECT_EQ(h100.multiprocessors, 132);
  EXPECT_GT(h100.memory_bytes, int64_t{78} << 30);
  EXPECT_LT(h100.memory_bytes, int64_t{80} << 30);
  for (const auto& [name, gpu] : gpus) {
    const double capability = std::stod(gpu.compute_capability);
    EXPECT_EQ(has_bf16(gpu.compute_capability), capability >= 8) << name;
    EXPECT_EQ(is_supported(gpu.compute_capability), capability >= 7.5) << name;
    EXPECT_GE(gpu.memory_bytes_per_second, 100e9) << name;
    if (has_bf16(gpu.compute_capability)) {
      EXPECT_GE(gpu.tf32_flops, gpu.fp32_flops) << name;
      EXPECT_GT(gpu.bf16_flops, gpu.tf32_flops) << name;
      EXPECT_GT(gpu.int8_ops, gpu.bf16_flops) << name;
      EXPECT_EQ(gpu.fp16_flops, 0) << name << ": as fast as BF16";
    } else {
      EXPECT_EQ(gpu.bf16_flops, 0) << name;
      EXPECT_EQ(gpu.tf32_flops, 0) << name;
      EXPECT_GT(gpu.fp16_flops, gpu.fp32_flops) << name;
    }
    EXPECT_EQ(gpu.fp8_flops > 0, capability >= 8.9) << name;
    EXPECT_GE(gpu.link_bytes_per_second, 16e9) << name;
    EXPECT_GE(gpu.gpus_per_node, 2) << name;
    EXPECT_GE(gpu.network_bytes_per_second, 0.5e9) << name;
    EXPECT_LT(gpu.network_bytes_per_second, gpu.link_bytes_per_second) << name;
    EXPECT_EQ(gpu.desktop_bytes > 0, gpu.product.find("RTX") != std::string::npos) << name;
    EXPECT_LT(gpu.desktop_bytes, static_cast<double>(gpu.memory_bytes) / 2) << name;
  }
  EXPECT_DOUBLE_EQ(h100.bf16_flops, 989.4e12);
  EXPECT_DOUBLE_EQ(h100.memory_bytes_per_second, 3.35e12);
  EXPECT_EQ(h100.gpus_per_node, 8);
  EXPECT_DOUBLE_EQ(h100.link_bytes_per_second, 450e9);
  EXPECT_DOUBLE_EQ(h100.network_bytes_per_second, 50e9);
}

TEST(Devices, UnknownNamesAreToldTheNearest) {
  const auto gpus = load_gpus(FATHOM_SOURCE_DIR "/configs/gpus.yaml");
  try {
    find_gpu(gpus, "Voodoo2");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("unknown GPU 'Voodoo2'"), HasSubstr("fathom list gpus")));
  }
  for (const char* name : {"MI300X", "M3", "M3 Max", "RX 7900 XTX", "AMD Instinct MI250", "Gaudi3", "Apple M2"}) {
    EXPECT_THAT(refusal(gpus, name), AllOf(HasSubstr("NVIDIA's alone"), Not(HasSubstr("did you mean")))) << name;
  }
  EXPECT_THAT(refusal(gpus, "M40"), Not(HasSubstr("NVIDIA's alone")));
  EXPECT_THAT(refusal(gpus, "A100"), HasSubstr("did you mean A100-40GB or A100-80GB?"));
  EXPECT_THAT(refusal(gpus, "RTX 4060 Ti"), HasSubstr("did you mean RTX-4060-Ti-16GB?")) << "there is one of 8 GB";
  EXPECT_THAT(refusal(gpus, "3060 8GB"), HasSubstr("unknown GPU"));
  EXPECT_THAT(refusal(gpus, "RTX"), HasSubstr("unknown GPU"));
  std::map<std::string, GpuSpec> nines;
  for (const char* nine : {"RTX-9", "Quadro-9"}) nines[nine].name = nine;
  EXPECT_THAT(refusal(nines, "9"), HasSubstr("'9' may be Quadro-9 or RTX-9"));
}

// Each by its key and by CUDA's name, as people write them.
TEST(Devices, NamesAreTakenHoweverTheyAreSpelt) {
  const auto gpus = load_gpus(FATHOM_SOURCE_DIR "/configs/gpus.yaml");
  const std::pair<const char*, const char*> spelt[] = {{"4090", "RTX-4090"},     {"rtx4090", "RTX-4090"},
                                                       {"RTX 4090", "RTX-4090"}, {"GeForce RTX 4090", "RTX-4090"},
                                                       {"3060", "RTX-3060"},     {"3060 12GB", "RTX-3060"},
                                                       {"h100", "H100"},         {"NVIDIA H100", "H100"},
                                                       {"h100 80gb", "H100"},    {"H100 PCIe", "H100-PCIe"},
                                                       {"a6000", "RTX-A6000"},   {"A100 80GB", "A100-80GB"},
                                                       {"Tesla T4", "T4"},       {"4070ti super", "RTX-4070-Ti-SUPER"},
                                                       {"3090Ti", "RTX-3090-Ti"}};
  for (const auto& [name, key] : spelt) EXPECT_EQ(find_gpu(gpus, name).name, key) << name;
  for (const auto& [key, gpu] : gpus) {
    std::string together = key, lower = key;
    std::erase(together, '-');
    for (char& c : lower) c = c == '-' ? ' ' : static_cast<char>(std::tolower(c));
    EXPECT_EQ(find_gpu(gpus, lower).name, key);
    const bool joins_numbers = std::regex_search(key, std::regex("[0-9]-[0-9]"));
    EXPECT_EQ(find_gpu(gpus, joins_numbers ? key : together).name, key);
    EXPECT_EQ(find_gpu(gpus, key.ends_with("Ti-16GB") ? key : gpu.product).name, key);
  }
}

TEST(Devices, ASoundListIsRead) {
  EXPECT_EQ(device_problems("X: {compute_capability: \"8.6\", multiprocessors: 10, memory_gib: 1.5}\n"), "none");
  EXPECT_EQ(device_problems("X: {compute_capability: 12.0, multiprocessors: 10, memory_bytes: 1000}\n"), "none");
  EXPECT_EQ(device_problems("X: {compute_capability: 12.0, multiprocessors: 10, memory_bytes: 1000, bf16_tflops: 0.5, "
                            "price_per_hour: 3}\n"),
            "none");
}

TEST(Devices, EveryProblemIsTold) {
  EXPECT_THAT(device_problems(
                  "X:\n  compute_capability: 9\n  multiprocessors: -1\n  memory_gib: lots\n  price: 3\nY: 5\nZ: {}\n"),
              AllOf(HasSubstr(":2:23: compute_capability: expected a number like \"9.0\", got '9'"),
                    HasSubstr(":3:20: multiprocessors: expected a whole number, at least 1 and at most 4096"),
                    HasSubstr(":4:15: memory_gib: expected a number"), HasSubstr(":5:3: price: unknown key"),
                    HasSubstr("known are product, "), HasSubstr("price_per_hour"),
                    HasSubstr(":6:1: Y: expected a map of the GPU's figures, got '5'")));
  EXPECT_THAT(
      device_problems(
          "X: {compute_capability: 12.0, multiprocessors: 10, memory_bytes: 1000, bf16_tflops: 0, "
          "price_per_hour: .inf, memory_gb_per_second: fast, gpus_per_node: 0.5, network_gb_per_second: -1}\n"),
      AllOf(HasSubstr("gpus_per_node: expected a whole number, at least 1"),
            HasSubstr("network_gb_per_second: expected a number, above 0"),
            HasSubstr("bf16_tflops: expected a number, above 0"), HasSubstr("price_per_hour: expected a number"),
            HasSubstr("memory_gb_per_second: expected a number")));
  EXPECT_THAT(device_problems("Z: {}\n"), AllOf(HasSubstr("has no compute_capability"),
                                                HasSubstr("has no multiprocessors"), HasSubstr("has no memory_bytes")));
}

}  // namespace
}  // namespace fathom::config
