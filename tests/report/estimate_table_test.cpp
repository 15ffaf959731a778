// What an estimate tells besides bytes on the device, as the terminal shows it.
#include "report/estimate_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "base/json_value.h"
#include "report/table.h"

namespace fathom::report {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_THAT(format_inference(inference, std::nullopt), ::testing::Not(HasSubstr("(1,623.4)")));
  EXPECT_THAT(text, ::testing::AllOf(HasSubstr(" (1,623.4) "), HasSubstr(" (405.9) "), HasSubstr(" 202.9 ")));
  EXPECT_THAT(text, HasSubstr("In parentheses: more than B300's 288.0 GB."));
  EXPECT_THAT(text, HasSubstr("\n64 × 131,072 "));
  EXPECT_THAT(text, HasSubstr("1 GiB = 1.074 GB")) << "two kinds of units in one output";
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    EXPECT_LE(display_width(text.substr(begin, end - begin)), kTerminalColumns) << text;
    begin = end + 1;
  }
}

// A second of communication, of which a quarter waits, in a step of four.
plan::Outlook outlook_of_16() {
  plan::Outlook outlook;
  outlook.step_tokens = 1000;
  outlook.processes = 16;
  outlook.throughput = plan::Throughput{};
  outlook.throughput->source = "configs/gpus.yaml";
  outlook.throughput->interconnect = plan::Interconnect{450e9, 50e9, 8};
  outlook.step = plan::ExpectedTime{1, 1, 1.75, 0.25};
  outlook.communication =
      plan::Communication{{30'000'000'000, 20'000'000'000, 0, 40'000'000'000, 10'000'000'000}, 1, 0.25};
  return outlook;
}

TEST(FormatTime, TellsWhatCommunicationIsHidden) {
  const std::string table = format_time({}, outlook_of_16());
  const std::string text = std::regex_replace(table, std::regex("[\n ]+"), " ");
  for (const char* part : {"communication 50.0 GB 80 % of 50.0 GB/s 250 ms", "1,000 tokens 4.00 s",
                           "250 tokens a second", "30.0 GB of parameters", "20.0 GB of gradients to where",
                           "between nodes", "750 ms", "All 16 together: 4,000"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, ::testing::Not(HasSubstr("over copies")));
}

TEST(FormatTime, SaysWhereCommunicationIsNotReckoned) {
  plan::Outlook outlook = outlook_of_16();
  outlook.communication.reset();
  const std::string text = std::regex_replace(format_time({}, outlook), std::regex("\n *"), " ");
  EXPECT_THAT(text, HasSubstr("is not reckoned"));
  EXPECT_THAT(text, HasSubstr("without a loss to communication"));
  EXPECT_EQ(outlook_json({}, outlook).at("communication"), nullptr);
}

TEST(OutlookJson, HasTheBytesOfCommunicationByBothWays) {
  const Json json = outlook_json({}, outlook_of_16()).at("communication");
  EXPECT_EQ(json.at("gathered_bytes"), 30'000'000'000);
  EXPECT_EQ(json.at("link_bytes"), 40'000'000'000);
  EXPECT_EQ(json.at("network_bytes"), 10'000'000'000);
  EXPECT_EQ(json.at("hidden_seconds"), 0.75);
  EXPECT_EQ(json.at("tokens_per_second_of_all"), 4000);
}

TEST(DescribeUnknownSpeed, NamesWhatBringsIt) {
  EXPECT_THAT(describe_unknown_speed(config::Device::kCpu), HasSubstr("fathom doctor --calibrate"));
  EXPECT_THAT(describe_unknown_speed(config::Device::kCuda), HasSubstr("configs/gpus.yaml"));
}

}  // namespace
}  // namespace fathom::report
