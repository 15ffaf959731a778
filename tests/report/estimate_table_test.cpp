// What an estimate tells besides bytes on the device, as the terminal shows it.
#include "report/estimate_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/table.h"

namespace fathom::report {
namespace {

using testing::HasSubstr;

TEST(FormatInference, HasARowForEachCacheAndFitsATerminal) {
  plan::Inference inference;
  inference.cache_bytes_per_token = 320 << 10;
  for (const plan::WeightFormat& format : plan::kWeightFormats) {
    inference.weights.push_back({format.name, plan::weight_bytes(int64_t{405'853'388'800}, format)});
  }
  inference.caches = {{1, 8192, int64_t{320 << 10} * 8192}, {64, 131072, int64_t{320 << 10} * 64 * 131072}};
  config::GpuSpec gpu;
  gpu.name = "B300";
  gpu.memory_bytes = 288'000'000'000;
  const std::string text = format_inference(inference, gpu);
  EXPECT_THAT(format_inference(inference, std::nullopt), testing::Not(HasSubstr("(1,623.4)")));
  EXPECT_THAT(text, testing::AllOf(HasSubstr(" (1,623.4) "), HasSubstr(" (405.9) "), HasSubstr(" 202.9 ")));
  EXPECT_THAT(text, HasSubstr("In parentheses: more than B300's 288.0 GB."));
  EXPECT_THAT(text, HasSubstr("\n64 × 131,072 "));
  EXPECT_THAT(text, HasSubstr("1 GiB = 1.074 GB")) << "two kinds of units in one output";
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    EXPECT_LE(display_width(text.substr(begin, end - begin)), kTerminalColumns) << text;
    begin = end + 1;
  }
}

TEST(DescribeUnknownSpeed, NamesWhatBringsIt) {
  EXPECT_THAT(describe_unknown_speed(config::Device::kCpu), HasSubstr("fathom doctor --calibrate"));
  EXPECT_THAT(describe_unknown_speed(config::Device::kCuda), HasSubstr("configs/gpus.yaml"));
}

}  // namespace
}  // namespace fathom::report
