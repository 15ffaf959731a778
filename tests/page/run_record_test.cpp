// Run folders: what is there is read, what is not ours is refused.
#include "page/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "tests/page/example.h"

namespace fathom::page {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class RunRecordTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "fathom_page_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const char* name, const std::string& text) { write_file_atomically(folder_ / name, text); }
  // What the folder is refused with.
  std::string refusal() {
    try {
      read_run_record(folder_);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  }
  // timeline.json with one value of the predicted timeline changed.
  std::string refusal_of(const char* key, const Json& value) {
    Json timeline = memory::to_json(random_timeline(1, 3, 30));
    timeline[key] = value;
    write("timeline.json", Json{{"predicted", timeline}}.dump());
    return refusal();
  }

  fs::path folder_;
};

TEST_F(RunRecordTest, TimelinesComeBackAsTheyWere) {
  const Timeline predicted = random_timeline(1, 4, 200), measured = random_timeline(2, 4, 200);
  write_timelines(folder_, predicted, &measured);
  const RunRecord record = read_run_record(folder_);
  EXPECT_EQ(record.predicted, predicted);
  EXPECT_EQ(record.measured, measured);
  write_timelines(folder_, predicted, nullptr);
  EXPECT_FALSE(read_run_record(folder_).measured);
  write_timelines(folder_, Timeline(), nullptr);
  EXPECT_FALSE(read_run_record(folder_).predicted) << "a plan without a step";
}

TEST_F(RunRecordTest, MetricsEndWithTheLastWholeLine) {
  write("metrics.jsonl", R"({"step": 0, "eval_loss": 4.5, "eval_tokens": 10}
{"step": 1, "loss": 2.5, "tokens": 12, "tokens_per_second": 3.5}
{"step": 2, "lo)");
  const RunRecord record = read_run_record(folder_);
  ASSERT_EQ(record.steps.size(), 1U);
  EXPECT_EQ(record.steps[0].loss, 2.5);
  EXPECT_EQ(record.steps[0].tokens, 12);
  ASSERT_EQ(record.evaluations.size(), 1U);
  EXPECT_EQ(record.evaluations[0].eval_loss, 4.5);
  EXPECT_TRUE(record.memory.empty());
}

TEST_F(RunRecordTest, NullIsANumberThatWasNotFinite) {
  write("metrics.jsonl", R"({"step": 1, "loss": null, "grad_norm": null}
{"step": 2, "eval_loss": null}
)");
  const RunRecord record = read_run_record(folder_);
  EXPECT_TRUE(std::isnan(record.steps[0].loss));
  EXPECT_TRUE(std::isnan(record.steps[0].grad_norm));
  EXPECT_TRUE(std::isnan(record.steps[0].learning_rate)) << "nothing is drawn of what is not there";
  EXPECT_TRUE(std::isnan(record.evaluations[0].eval_loss));
}

TEST_F(RunRecordTest, AFolderOfSomethingElseIsRefused) {
  EXPECT_THAT(refusal(), HasSubstr("holds no config.yaml, metrics.jsonl, timeline.json or memory.json"));
}

TEST_F(RunRecordTest, MetricsOfAnotherFormAreRefused) {
  write("metrics.jsonl", "{\"step\": 1, \"loss\": 1}\n{\"step\": \"two\", \"loss\": 1}\n");
  EXPECT_THAT(refusal(), HasSubstr("line 2"));
  write("metrics.jsonl", "[]\n");
  EXPECT_THAT(refusal(), HasSubstr("line 1"));
}

TEST_F(RunRecordTest, NumbersOfPreferencesAreRead) {
  write("metrics.jsonl",
        "{\"step\": 1, \"loss\": 0.5, \"rewards/chosen\": 0.25, \"other\": 1}\n"
        "{\"step\": 1, \"eval_loss\": 0.5, \"eval_rewards/accuracies\": 0.75}\n");
  const RunRecord record = read_run_record(folder_);
  EXPECT_EQ(record.steps.at(0).more, (report::Scalars{{"rewards/chosen", 0.25}}));
  EXPECT_EQ(record.evaluations.at(0).more, (report::Scalars{{"rewards/accuracies", 0.75}}));
}

TEST_F(RunRecordTest, MemoryOfAnotherFormIsRefused) {
  write("memory.json", "[1]");
  EXPECT_THAT(refusal(), HasSubstr("expected a JSON object"));
  write("memory.json", R"({"schema_version": 99})");
  EXPECT_THAT(refusal(), HasSubstr("schema_version 1"));
  write("memory.json", std::string(200, '[') + std::string(200, ']'));
  EXPECT_THAT(refusal(), HasSubstr("nest"));
}

TEST_F(RunRecordTest, TimelinesThatCannotBeAreRefused) {
  EXPECT_THAT(refusal_of("events", -1), HasSubstr("timeline.json"));
  EXPECT_THAT(refusal_of("events", int64_t{1} << 60), HasSubstr("impossible length"));
  EXPECT_THAT(refusal_of("peak_position", 31), HasSubstr("peak"));
  EXPECT_THAT(refusal_of("phases", {{1, 5, 10}, {2, 8, 20}}), HasSubstr("out of order"));
  EXPECT_THAT(refusal_of("phases", {{1, 0, 31}}), HasSubstr("out of order"));
  EXPECT_THAT(refusal_of("names", Json::array()), HasSubstr("no names"));
  EXPECT_THAT(refusal_of("blocks", {{1, 0, 31, 0, 0, 0, 0, 0}}), HasSubstr("after its end"));
  EXPECT_THAT(refusal_of("blocks", {{1, 0, -1, 0, 0, 9, 0, 0}}), HasSubstr("no name 9"));
  EXPECT_THAT(refusal_of("blocks", {{1, 0, -1, 7, 0, 0, 0, 0}}), HasSubstr("no component 7"));
  const int64_t most = INT64_MAX;
  EXPECT_THAT(refusal_of("blocks", {{most, 0, -1, 0, 0, 0, 0, 0}, {most, 0, -1, 0, 0, 0, 0, 0}}), HasSubstr("blocks"));
  EXPECT_THAT(refusal_of("blocks", "none"), HasSubstr("timeline.json"));
}

TEST(MemoryJsonValues, AreCheckedWhereTheyAreRead) {
  const Json memory = {{"peak", {{"measured", 5}, {"dry_run", nullptr}, {"analytic", -1}}}, {"name", 3}, {"list", 4}};
  EXPECT_EQ(bytes_at(memory, {"peak", "measured"}), 5);
  EXPECT_EQ(bytes_at(memory, {"peak", "dry_run"}), std::nullopt);
  EXPECT_EQ(bytes_at(memory, {"peak", "nothing", "at", "all"}), std::nullopt);
  EXPECT_THROW(bytes_at(memory, {"peak", "analytic"}), Error);
  EXPECT_THROW(bytes_at(memory, {"peak"}), Error);
  EXPECT_THROW(text_at(memory, {"name"}), Error);
  EXPECT_THROW(list_at(memory, {"list"}), Error);
  EXPECT_THROW(number_at(memory, {"peak"}), Error);
  EXPECT_TRUE(list_at(memory, {"others"}).empty());
}

}  // namespace
}  // namespace fathom::page
