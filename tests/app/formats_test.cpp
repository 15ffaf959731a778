// formats: numbers, ranges and bytes as text and as JSON, without LibTorch.
#include <gmock/gmock.h>

#include <sstream>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

using Formats = ProgramTest;

TEST_F(Formats, PiATenthAndSeventyThousandAreShownUnlessTold) {
  const Outcome outcome = run("formats", "FATHOM_TORCH=/nonexistent ");
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(ContainsRegex("FP16 +0 10000 1001001000 +3.140625 +-0.00097 +0.00031\n"),
                                    ContainsRegex("INT8 +00000011 +3 +-0.14 +0.045\n"),
                                    ContainsRegex("INT8 +01100100 = 100 × 0.0314961 +3.1496"),
                                    ContainsRegex("BF16 +0 01111011 1001101 +0.100097656"),
                                    ContainsRegex("FP16 +0 11111 0000000000 +inf +overflow"),
                                    ContainsRegex("FP16 +1\\+5\\+10 .* 65504 +2,048 +2\n"),
                                    ContainsRegex("NF4 +0.5 +0.0625 +0.5625 ")));
}

// Columns, of which a UTF-8 text has fewer than bytes.
TEST_F(Formats, LinesFitATerminalOf80Columns) {
  std::istringstream lines(run("formats pi -0.0999755859 1.17549435e-38 -70000 nan").output);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto columns = std::count_if(line.begin(), line.end(), [](char byte) { return (byte & 0xc0) != 0x80; });
    EXPECT_LE(columns, 80) << line;
  }
  EXPECT_GT(count, 80);
}

TEST_F(Formats, JsonIsOneObject) {
  const Json json = parse_json(run("formats 70000 -2.5 --json").output, "stdout");
  ASSERT_EQ(json["numbers"].size(), 2u);
  const Json& fp16 = json["numbers"][0]["stored"][1];
  EXPECT_EQ(fp16["format"], "FP16");
  EXPECT_EQ(fp16["value"], nullptr);
  EXPECT_EQ(fp16["text"], "inf");
  EXPECT_EQ(fp16["overflow"], true);
  const Json& scaled = json["numbers"][1]["stored"][7];
  EXPECT_EQ(scaled["format"], "INT8");
  EXPECT_EQ(scaled["code"], -79);  // of 2.5 / 4 × 127 = 79.375
  EXPECT_EQ(json["formats"].size(), 8u);
  EXPECT_EQ(json["formats"][0]["largest"].get<double>(), 0x1.fffffep127);
  EXPECT_EQ(json["storage"][0]["bytes_per_billion"], 4e9);
  EXPECT_EQ(json["storage"][6]["bytes_per_billion"], 0.5625e9);
  // A byte for each block of 64, FP32 for 256 of these and one more for the matrix.
  EXPECT_NEAR(json["storage"][7]["bytes_per_billion"], 0.5e9 + 1e9 / 64 + 4e9 / 64 / 256, 1000);
  EXPECT_EQ(json["storage"][8]["bytes_per_billion"], 0.53125e9);
  EXPECT_EQ(json["storage"][9]["bytes_per_billion"], 1.03125e9);
}

TEST_F(Formats, TheLargestOfARunIsAChoice) {
  const Json json = parse_json(run("formats 1 --largest 127 --json").output, "stdout");
  EXPECT_EQ(json["numbers"][0]["stored"][7]["scale"], 1);
  EXPECT_EQ(json["numbers"][0]["stored"][7]["code"], 1);
  EXPECT_EQ(json["numbers"][0]["stored"][9]["value"], 0);  // NF4 has nothing near
}

TEST_F(Formats, WhatIsNoNumberIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"formats three", "error: formats: expected a number, got 'three'"},
      {"formats 1 2x", "got '2x'"},
      {"formats ''", "got ''"},
      {"formats 1e999", "outside the range of FP64: '1e999'"},
      {"formats 5 --largest 4", "--largest: expected a number above 0 that no other exceeds, got '4'"},
      {"formats 5 --largest inf", "got 'inf'"},
      {"formats 0 --largest 1e39", "got '1e39'"},
      {"formats --nonsense", "--nonsense"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_EQ(outcome.output, "") << arguments;
    EXPECT_THAT(outcome.errors, HasSubstr(message)) << arguments;
  }
}

}  // namespace
}  // namespace fathom
