// Times of operators: what was measured is what is told, what was not lies between its nearest.
#include "plan/time/operator_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"

namespace fathom::plan {
namespace {

using ::testing::HasSubstr;

Json table() {
  return Json::parse(R"({
    "device": "NVIDIA Example", "measured_on": "2026-11-21",
    "tflops": {"bfloat16": 1000, "float32": 50}, "memory_gb_per_second": 1000, "gap_us": 2, "launch_us": 20,
    "products": [
      {"type": "bfloat16", "m": 4096, "k": 4096, "n": 4096, "us": 200},
      {"type": "bfloat16", "m": 16384, "k": 4096, "n": 4096, "us": 700}
    ],
    "attention": [
      {"cudnn": false, "backward": false, "rows": 2, "heads": 32, "length": 2048, "head_size": 128, "us": 300},
      {"cudnn": false, "backward": true, "rows": 2, "heads": 32, "length": 2048, "head_size": 128, "us": 900}
    ],
    "streams": [
      {"operator": "aten::add_", "bytes": 100000000, "us": 200},
      {"operator": "aten::add_", "bytes": 1000000000, "us": 1250},
      {"operator": "aten::copy_", "bytes": 100000000, "us": 400}
    ]})");
}

OperatorTimes times() { return OperatorTimes::from_json(table(), "the table"); }

TEST(OperatorTimes, OfWhatWasMeasuredAreThose) {
  EXPECT_NEAR(times().product(DType::kBF16, {4096, 4096, 4096}), 200e-6, 2e-6);
  EXPECT_NEAR(times().product(DType::kF16, {16384, 4096, 4096}), 700e-6, 7e-6);
  const int64_t pairs = int64_t{2048} * 2049 / 2, forward = 4 * pairs * 2 * 32 * 128;
  EXPECT_NEAR(times().attention(DType::kBF16, {2, 32, 2048, 128}, forward), 300e-6, 1e-9);
  EXPECT_NEAR(times().attention(DType::kBF16, {2, 32, 2048, 128, true}, forward / 2 * 5), 900e-6, 1e-9);
  EXPECT_NEAR(times().stream("aten::add_", 100'000'000), 200e-6, 1e-9);
  EXPECT_NEAR(times().stream("aten::copy_", 200'000'000), 800e-6, 1e-9);
}

TEST(OperatorTimes, OfWhatWasNotLieBetween) {
  const double between = times().product(DType::kBF16, {8192, 4096, 4096});
  EXPECT_GT(between, 2 * 175e-6);
  EXPECT_LT(between, 2 * 200e-6);
  EXPECT_NEAR(times().product(DType::kBF16, {8192, 4096, 4096, 3}), 3 * between, 1e-9);
  EXPECT_GT(times().stream("fathom::gated", 300'000'000), 3 * 125e-6);
  EXPECT_LT(times().stream("fathom::gated", 300'000'000), 3 * 200e-6);
}

// The least time of a kernel counts once.
TEST(OperatorTimes, OfABatchOfSmallProductsAreThoseOfItsBytes) {
  const ProductSides sides{128, 64, 512, 64};
  EXPECT_LT(times().product(DType::kBF16, sides), 64.0 * (128 * 64 + 64 * 512 + 128 * 512) * 2 / 1000e9 * 2);
}

// A thin product is bound by its bytes, whatever the share of the matrix units.
TEST(OperatorTimes, OfAThinProductAreThoseOfItsBytes) {
  EXPECT_GT(times().product(DType::kBF16, {4096, 4096, 8}), 4096 * 4096 * 2 / 1000e9);
}

TEST(OperatorTimes, OfATypeThatWasNotMeasuredTakeTheShareOfDataSheets) {
  EXPECT_NEAR(times().product(DType::kF32, {4096, 4096, 4096}), 2 * 4096e0 * 4096 * 4096 / 50e12 / kMatrixEfficiency,
              1e-9);
  EXPECT_NEAR(times().attention(DType::kF32, {2, 32, 2048, 128}, 1'000'000'000), 1e9 / 50e12 / kAttentionEfficiency,
              1e-9);
}

TEST(OperatorTimes, AddUpToTheSpeedOfAStep) {
  StepArithmetic step{.forward = {.matrix_flops = 1000, .attention_flops = 100, .bytes_moved = 10}};
  EXPECT_EQ(throughput_of(step, times(), 1), std::nullopt);
  DeviceTime& device = step.forward.device;
  device = {.matrix_ns = 3'000'000, .attention_ns = 1'000'000, .memory_ns = 2'000'000, .launches = 100};
  const ComputingTime expected = expected_time(step, *throughput_of(step, times(), 1)).computing();
  EXPECT_NEAR(expected.matrix_seconds, 3e-3, 1e-9);
  EXPECT_NEAR(expected.attention_seconds, 1e-3, 1e-9);
  EXPECT_NEAR(expected.memory_seconds, 2e-3 + 100 * 2e-6, 1e-9) << "with the gaps";
  device.launches = 1000;
  EXPECT_NEAR(expected_time(step, *throughput_of(step, times(), 1)).seconds(), 1000 * 20e-6, 1e-9)
      << "the GPU waits for its host";
  EXPECT_NEAR(expected_time(step, *throughput_of(step, times(), 2)).seconds(), 6e-3 + 1000 * 2e-6, 1e-9);
}

// Gaps are 2 us, and a host launches in 20 us: it goes ahead by 8 ms forward, needs 20 ms for a backward pass of 5 ms,
// and goes ahead again in the update.
TEST(OperatorTimes, KnowWhereInAStepTheHostIsWaitedFor) {
  const auto part = [](int64_t memory_ns, int64_t launches) {
    return Arithmetic{.bytes_moved = 10, .device = {.memory_ns = memory_ns, .launches = launches}};
  };
  const StepArithmetic step{
      .forward = part(9'800'000, 100), .backward = part(3'000'000, 1000), .update = part(1'998'000, 1)};
  const Throughput speed = *throughput_of(step, times(), 1);
  const ExpectedTime expected = expected_time(step, speed);
  EXPECT_NEAR(expected.parts.forward.seconds(), 10e-3, 1e-9);
  EXPECT_NEAR(expected.parts.backward.seconds(), 22e-3 - 10e-3, 1e-9);
  EXPECT_NEAR(expected.parts.update.seconds(), 2e-3, 1e-9);
  EXPECT_NEAR(30 / speed.bytes_per_second, 24e-3, 1e-9) << "of the whole step";
  const StepArithmetic twice = step + step;
  EXPECT_NEAR(expected_time(twice, speed).parts.update.seconds(), 4e-3, 1e-9);
}

TEST(OperatorTimes, RefuseATableOfAnotherForm) {
  const auto refusal = [](const char* pointer, const Json& value) {
    Json wrong = table();
    wrong[Json::json_pointer(pointer)] = value;
    try {
      OperatorTimes::from_json(wrong, "the table");
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(refusal("/products/0/us", 0), HasSubstr("the table: us is no positive number"));
  EXPECT_THAT(refusal("/products/0/m", -1), HasSubstr("m is not between 1 and 2^50"));
  EXPECT_THAT(refusal("/products/0/m", 1e300), HasSubstr("m is no whole number"));
  EXPECT_THAT(refusal("/products/0/type", "int3"), HasSubstr("int3"));
  EXPECT_THAT(refusal("/gap_us", "much"), HasSubstr("the table has another form than expected"));
  EXPECT_THAT(refusal("/tflops", Json{{"bfloat16", 1000}}), HasSubstr("tflops lacks float32"));
  EXPECT_THAT(refusal("/streams", Json::array()), HasSubstr("streams has no aten::add_"));
}

TEST(OperatorTimes, ThatShipAreWhole) {
  const std::string file = FATHOM_SOURCE_DIR "/configs/gpu-times/nvidia-h100-80gb-hbm3.json";
  const OperatorTimes shipped = OperatorTimes::from_json(parse_json(read_file(file, 1 << 22), file), file);
  EXPECT_EQ(shipped.device(), "NVIDIA H100 80GB HBM3");
  const double seconds = shipped.product(DType::kBF16, {4096, 4096, 14336});
  EXPECT_NEAR(2 * 4096e0 * 4096 * 14336 / seconds, 660e12, 30e12);
}

}  // namespace
}  // namespace fathom::plan
