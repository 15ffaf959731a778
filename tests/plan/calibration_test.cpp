// Records of measured devices: written, read back, refused, and what plans take from them.
#include "plan/time/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::plan {
namespace {

using ::testing::HasSubstr;

class CalibrationFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("fathom_calibration_" + std::to_string(getpid()));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

Calibration example() {
  Calibration calibration;
  calibration.device = "AMD EPYC 9B14 (R)";
  calibration.measured_on = "2026-11-21";
  calibration.speeds = {{1, false, 128, 10e9, 5e9, 4e9},
                        {1, false, 1024, 40e9, 5e9, 4e9},
                        {4, false, 128, 20e9, 20e9, 8e9},
                        {4, false, 1024, 160e9, 20e9, 8e9}};
  calibration.overheads = {{{true, config::Attention::kMath, config::Method::kLora, true}, 500'000'000}};
  return calibration;
}

arch::Architecture architecture_of(int64_t width) {
  arch::Architecture architecture;
  architecture.hidden_size = width;
  architecture.layers.assign(
      1, {.mixer = arch::Attention{.heads = 1, .key_value_heads = 1, .head_dim = 2}, .feed_forward = {.width = 2}});
  return architecture;
}

TEST_F(CalibrationFile, ReadsBackWhatWasWritten) {
  const auto file = save_calibration(folder_, example());
  EXPECT_EQ(file.filename(), "amd-epyc-9b14-r.json");
  EXPECT_EQ(load_calibration(folder_, example().device), example());
  EXPECT_EQ(load_calibration(folder_, "another"), std::nullopt);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "nothing is left beside it";
}

TEST_F(CalibrationFile, NamesStayInTheFolder) {
  EXPECT_EQ(calibration_file("f", "../../etc/passwd"), "f/etc-passwd.json");
  EXPECT_EQ(calibration_file("f", ""), "f/device.json");
  EXPECT_EQ(calibration_file("f", "///"), "f/device.json");
}

TEST_F(CalibrationFile, RefusesWhatIsDamagedOrOfAnother) {
  const auto file = save_calibration(folder_, example());
  const Json sound = to_json(example());
  const auto said = [&](const std::string& text) -> std::string {
    std::ofstream(file, std::ios::trunc) << text;
    try {
      load_calibration(folder_, example().device);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  const auto changed = [&](auto change) {
    Json json = sound;
    change(json);
    return said(json.dump());
  };
  EXPECT_EQ(said(sound.dump()), "nothing");
  EXPECT_THAT(said("{"), HasSubstr("amd-epyc"));
  EXPECT_THAT(said("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(said(std::string(2 << 20, ' ')), HasSubstr("larger"));
  EXPECT_THAT(changed([](Json& json) { json["device"] = "Other"; }), HasSubstr("belongs to another device"));
  EXPECT_THAT(changed([](Json& json) { json["device"] = "a\nb"; }), HasSubstr("one line"));
  EXPECT_THAT(changed([](Json& json) { json["schema_version"] = 2; }), HasSubstr("schema_version"));
  EXPECT_THAT(changed([](Json& json) { json["extra"] = 1; }), HasSubstr("unknown key 'extra'"));
  EXPECT_THAT(changed([](Json& json) { json.erase("speeds"); }), HasSubstr("has no speeds"));
  EXPECT_THAT(changed([](Json& json) { json["speeds"][0]["width"] = 0; }), HasSubstr("width: expected a whole number"));
  EXPECT_THAT(changed([](Json& json) { json["speeds"][0]["width"] = uint64_t{1} << 63; }), HasSubstr("width"));
  EXPECT_THAT(changed([](Json& json) { json["speeds"][0]["bytes_per_second"] = -1; }), HasSubstr("above 0"));
  EXPECT_THAT(changed([](Json& json) { json["speeds"][0]["bytes_per_second"] = "9"; }), HasSubstr("above 0"));
  EXPECT_THAT(changed([](Json& json) { json["overheads"][0]["bytes"] = -1; }), HasSubstr("bytes"));
  EXPECT_THAT(changed([](Json& json) { json["overheads"][0]["method"] = "qat"; }), HasSubstr("\"full\" or \"lora\""));
}

TEST(CalibrationSpeeds, AreInterpolatedAlongLogarithms) {
  const config::RunConfig run;
  // Halfway between the logarithms of 128 and 1,024 lies 362.04: rates of 10 and 40 meet at 20.
  EXPECT_NEAR(throughput_of(example(), arch::resolve(run, architecture_of(362)), 1)->matrix_flops_per_second, 20e9,
              0.01e9);
  EXPECT_EQ(throughput_of(example(), arch::resolve(run, architecture_of(128)), 1)->matrix_flops_per_second, 10e9);
  EXPECT_EQ(throughput_of(example(), arch::resolve(run, architecture_of(16)), 1)->matrix_flops_per_second, 10e9);
  EXPECT_EQ(throughput_of(example(), arch::resolve(run, architecture_of(4096)), 4)->matrix_flops_per_second, 160e9);
  EXPECT_NEAR(throughput_of(example(), arch::resolve(run, architecture_of(128)), 2)->attention_flops_per_second, 10e9,
              1);
  EXPECT_EQ(throughput_of(example(), arch::resolve(run, architecture_of(128)), 1)->source,
            "the calibration of 2026-11-21");
  EXPECT_EQ(throughput_of(example(), arch::resolve(run, architecture_of(128)), 1)->matrix_efficiency, 1);
}

TEST(CalibrationSpeeds, AreNotGuessed) {
  config::RunConfig run;
  EXPECT_EQ(throughput_of(example(), arch::resolve(run, architecture_of(128)), 8), std::nullopt)
      << "more threads than were measured";
  run.bf16 = true;
  EXPECT_EQ(throughput_of(example(), arch::resolve(run, architecture_of(128)), 1), std::nullopt) << "another precision";
  run.bf16 = false;
  run.fp16 = true;
  EXPECT_EQ(throughput_of(example(), arch::resolve(run, architecture_of(128)), 1), std::nullopt)
      << "FP16 is not measured";
  EXPECT_EQ(throughput_of(Calibration{}, arch::resolve({}, architecture_of(128)), 1), std::nullopt);
}

TEST(CalibrationOverheads, BelongToTheirSettings) {
  config::RunConfig run;
  run.bf16 = true;
  run.attn_implementation = config::Attention::kMath;
  run.method = config::Method::kLora;
  run.gradient_checkpointing = true;
  EXPECT_EQ(overhead_of(example(), kernel_settings(arch::resolve(run, architecture_of(1)))), 500'000'000);
  run.gradient_checkpointing = false;
  EXPECT_EQ(overhead_of(example(), kernel_settings(arch::resolve(run, architecture_of(1)))), std::nullopt);
}

}  // namespace
}  // namespace fathom::plan
