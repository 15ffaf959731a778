// preview: the samples as they are trained on, what counts, and how full batches and bins are.
#include <gmock/gmock.h>

#include <algorithm>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Preview : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::copy(fs::path(FATHOM_SOURCE_DIR) / "data" / "model", folder_ / "model");
    write("run.yaml", R"(model_name_or_path: model
train_file: data.jsonl
per_device_train_batch_size: 2
gradient_accumulation_steps: 2
shuffle: false
)");
  }
  // Samples of these lengths, of which the first token does not count and the last has the label -100.
  void write_lengths(const std::vector<int>& lengths) {
    std::string lines;
    for (const int length : lengths) {
      std::vector<int> ids(static_cast<size_t>(length), 7), labels = ids;
      labels.back() = -100;
      lines += Json{{"input_ids", ids}, {"labels", labels}}.dump() + "\n";
    }
    write("data.jsonl", lines);
  }
  Json json(const std::string& settings) {
    const Outcome outcome = run("preview run.yaml --json " + settings);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return parse_json(outcome.output, "stdout");
  }
};

TEST_F(Preview, ShowsWhatCountsForTheLoss) {
  write("data.jsonl", R"({"prompt": "How large?", "completion": " 35 GB"})"
                      "\n"
                      R"({"prompt": "Evil \u001b[31m \u009b1m", "completion": " red"})"
                      "\n");
  const Outcome outcome = run("preview run.yaml");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("train: 2 samples"), HasSubstr("⟦<s> How large?⟧ 35 GB</s>"),
                    HasSubstr("\\x1b[31m \\u009b1m"), Not(HasSubstr("\x1b")), Not(HasSubstr("\xC2\x9B"))));
  const Outcome one = run("preview run.yaml --index 1");
  EXPECT_THAT(one.output, AllOf(HasSubstr("sample 1:"), Not(HasSubstr("sample 0:"))));
  const Outcome none = run("preview run.yaml --index 2");
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.errors, HasSubstr("there are 2 samples, counted from 0"));
}

TEST_F(Preview, CountsPaddingAndWhatIsCut) {
  write_lengths({4, 8, 2, 2, 20});
  const Json preview = json("max_length=10"), &train = preview["train"], &pass = preview["pass"];
  EXPECT_EQ(train["samples"], 3);
  EXPECT_EQ(train["without_target"], 2);
  EXPECT_EQ(train["truncated"], 1);
  EXPECT_EQ(train["cut_tokens"], 10);
  EXPECT_EQ(train["targets"], 2 + 6 + 9);
  EXPECT_EQ(pass["steps"], 1);
  EXPECT_EQ(pass["batches"], 2);
  EXPECT_EQ(pass["tokens"], 4 + 8 + 10);
  EXPECT_EQ(pass["positions"], 8 + 8 + 10);
  EXPECT_EQ(pass["longest"], 16);
  EXPECT_FALSE(pass.contains("bins"));
}

TEST_F(Preview, CountsTheRoomOfBinsNotOfWholeBatches) {
  write_lengths({9, 1 + 8, 6, 4, 10});  // bins of 10: {10}, {9}, {9}, {6, 4}
  Json pass = json("max_length=10 packing=true")["pass"];
  EXPECT_EQ(pass["bins"], 4);
  EXPECT_EQ(pass["tokens"], 38);
  EXPECT_THAT(run("preview run.yaml max_length=10 packing=true").output, HasSubstr("packed: 4 bins, 95.0 % full"));
  pass = json("max_length=10 packing=true per_device_train_batch_size=3")["pass"];
  EXPECT_EQ(pass["batches"], 2) << "the second holds one bin";
  EXPECT_EQ(pass["bins"], 4);
  EXPECT_THAT(run("preview run.yaml max_length=10 packing=true per_device_train_batch_size=3").output,
              HasSubstr("packed: 4 bins, 95.0 % full"));
}

}  // namespace
}  // namespace fathom
