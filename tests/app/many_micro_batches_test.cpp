// Steps of more micro-batches than are played one by one: a long one among short ones is planned, trained, and told by
// every command that names the largest batch.
#include <gmock/gmock.h>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ManyMicroBatches : public ProgramTest {
 protected:
  static constexpr int kLines = 120;

  // The sixth line has 200 tokens, the others have 4, and all are in the only step.
  void SetUp() override {
    ProgramTest::SetUp();
    write("model/config.json",
          R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 307, "hidden_size": 48,
              "intermediate_size": 100, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
              "max_position_embeddings": 512, "rms_norm_eps": 1e-5})");
    std::string lines;
    for (int line = 0; line < kLines; ++line) {
      lines += Json{{"input_ids", std::vector<int>(line == 5 ? 200 : 4, 7)}}.dump() + "\n";
    }
    write("train.jsonl", lines);
    write("run.yaml",
          "model_name_or_path: model\nrandom_init: true\ntrain_file: train.jsonl\noutput_dir: out\nshuffle: false\n"
          "per_device_train_batch_size: 1\ngradient_accumulation_steps: 120\nmax_steps: 1\nnum_threads: 1\n");
  }
};

TEST_F(ManyMicroBatches, AreTrainedAsPlannedOnTheCpu) {
  const Outcome outcome = run("train run.yaml device=cpu");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("batches of up to 1 × 200 tokens"), HasSubstr("equal to the byte")));
  const Json peak = read_json(folder_ / "out/memory.json").at("peak");
  EXPECT_EQ(peak.at("dry_run"), peak.at("measured"));
}

// As fewer steps are taken to be too many: sixty layers.
TEST_F(ManyMicroBatches, AreTrainedWithinTheirBoundOnAPhantomGpu) {
  const std::string config = read_file(folder_ / "model/config.json");
  const std::string few = "\"num_hidden_layers\": 3", many = "\"num_hidden_layers\": 60";
  write("model/config.json", std::string(config).replace(config.find(few), few.size(), many));
  const Outcome outcome = run("train run.yaml device=cuda --phantom-gpu H100 method=lora");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json memory = read_json(folder_ / "out/memory.json");
  EXPECT_EQ(memory.at("peak").at("dry_run"), memory.at("peak").at("measured"));
  const Json& reserved = memory.at("reserved");
  EXPECT_TRUE(reserved.at("bound").get<bool>());
  EXPECT_LE(reserved.at("measured"), reserved.at("range").at(1));
}

TEST_F(ManyMicroBatches, ArePlannedByRepresentativesAsByAllOfThem) {
  for (const char* gpu : {"", " --gpu H100 --placements 1"}) {
    const std::string estimate = "estimate run.yaml --json" + std::string(gpu);
    const Outcome fewer = run(estimate), all = run(estimate + " --whole");
    ASSERT_EQ(fewer.status, 0) << fewer.errors;
    ASSERT_EQ(all.status, 0) << all.errors;
    const Json by_few = parse_json(fewer.output, "the plan"), by_all = parse_json(all.output, "the plan");
    for (const char* part : {"peak", "components", "maximum", "phases"}) EXPECT_EQ(by_few.at(part), by_all.at(part));
  }
}

TEST_F(ManyMicroBatches, AreRefusedWhereTheirPaddingOutgrowsEveryNumber) {
  for (const char* command : {"train run.yaml device=cpu", "estimate run.yaml", "estimate run.yaml --gpu H100"}) {
    const Outcome outcome = run(std::string(command) + " pad_to_multiple_of=1000000007");
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.errors, AllOf(HasSubstr("of 1,000,000,007 tokens; at most"), HasSubstr("pad_to_multiple_of")));
  }
}

}  // namespace
}  // namespace fathom
