// `strategy: auto`: what the ranks of a run choose together, by the plans of all of them, and what a plan of one says.
#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "base/json_value.h"
#include "tests/app/several_processes.h"

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

size_t count_of(const std::string& part, const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Two processes that train every weight; the second has the longer samples. With ddp they need 54.5 and 58.2 MiB, with
// fsdp 34 and 35.
class AutoStrategy : public SeveralProcesses {
 protected:
  void SetUp() override {
    SeveralProcesses::SetUp();
    std::string lines;
    for (int i = 0; i < 24; ++i) {
      Json ids = Json::array();
      for (int token = 0; token < (i / 2 % 2 == 0 ? 8 : 48); ++token) ids.push_back(300 + (31 * i + 7 * token) % 400);
      lines += Json{{"input_ids", ids}}.dump() + "\n";
    }
    write("ids.jsonl", lines);
  }

  Outcome train(const std::string& folder, const std::string& keys, int processes = 2) {
    return run(
        "train run.yaml method=full train_file=ids.jsonl max_length=64 shuffle=false max_steps=4 "
        "eval_strategy=no num_processes=" +
        std::to_string(processes) + " output_dir=" + folder + " " + keys);
  }
};

TEST_F(AutoStrategy, IsDdpWhereAllRanksHaveRoom) {
  const Outcome chosen = train("chosen", "strategy=auto memory_budget=60MiB");
  ASSERT_EQ(chosen.status, 0) << chosen.errors;
  EXPECT_THAT(chosen.errors, HasSubstr("strategy: auto takes ddp: with it rank 0 needs 54.49 MiB of 60.00 MiB\n"));
  EXPECT_EQ(count_of("strategy: auto takes", chosen.errors), 1) << chosen.errors;
  expect_planned(chosen, 2);
  ASSERT_EQ(train("ddp", "strategy=ddp").status, 0);
  EXPECT_TRUE(weights("chosen") == weights("ddp"));
  EXPECT_THAT(read_file(folder_ / "chosen/config.yaml"), HasSubstr("\nstrategy: ddp\n"));
}

TEST_F(AutoStrategy, IsFsdpWhereOneRankHasNoRoom) {
  ASSERT_EQ(train("fsdp", "strategy=fsdp").status, 0);
  for (const auto& [budget, who] : {std::pair{"45MiB", "rank 0 would need 54.49 MiB of 45.00 MiB"},
                                    std::pair{"56MiB", "rank 1 would need 58.19 MiB of 56.00 MiB"}}) {
    const Outcome chosen = train(budget, std::string("strategy=auto memory_budget=") + budget);
    ASSERT_EQ(chosen.status, 0) << chosen.errors;
    EXPECT_THAT(chosen.errors, HasSubstr(std::string("strategy: auto takes fsdp: with ddp ") + who + "\n"));
    EXPECT_EQ(count_of("strategy: auto takes", chosen.errors), 1) << chosen.errors;
    EXPECT_EQ(count_of("warning: the run is not evaluated on its validation_file", chosen.errors), 1) << chosen.errors;
    expect_planned(chosen, 2);
    EXPECT_TRUE(weights(budget) == weights("fsdp"));
    EXPECT_THAT(read_file(folder_ / budget / "config.yaml"), HasSubstr("\nstrategy: fsdp\n"));
  }
}

TEST_F(AutoStrategy, IsChosenOnPhantomGpus) {
  const Outcome chosen = train(
      "out", "--phantom-gpu H100 --trace trace --planned-trace planned device=cuda strategy=auto memory_budget=120MiB");
  ASSERT_EQ(chosen.status, 0) << chosen.errors;
  EXPECT_THAT(chosen.errors, HasSubstr("strategy: auto takes fsdp: with ddp rank 0 would need 138.00 MiB of "));
  EXPECT_THAT(chosen.output, HasSubstr("Dry run and measured are equal to the byte"));
  expect_planned(chosen, 2, ": [0-9,]+ events of the allocator, each as planned");
}

TEST_F(AutoStrategy, SaysWhereFsdpDoesNotTakeTheRun) {
  const Outcome refused = train("out", "strategy=auto optim=adafactor memory_budget=20MiB");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("strategy: auto cannot take fsdp, and with ddp rank 0 would need "),
                                    HasSubstr(" of 20.00 MiB: optim: expected not adafactor, whose means are of whole "
                                              "rows and columns, with strategy: fsdp, got adafactor; set optim: "),
                                    Not(HasSubstr("rank 1"))));
  const Outcome whole = train("out", "strategy=auto optim=adafactor");
  EXPECT_EQ(whole.status, 0) << whole.errors;
  EXPECT_THAT(whole.errors, HasSubstr("strategy: auto takes ddp"));
}

TEST_F(AutoStrategy, IsSilentInOneProcess) {
  const Outcome alone = train("out", "strategy=auto", /*processes=*/1);
  EXPECT_EQ(alone.status, 0) << alone.errors;
  EXPECT_THAT(alone.errors, Not(HasSubstr("auto takes")));
  EXPECT_THAT(read_file(folder_ / "out/config.yaml"), HasSubstr("\nstrategy: ddp\n"));
}

TEST_F(AutoStrategy, IsChosenByAPlanOfOneRank) {
  const auto estimate = [this](const std::string& model, const std::string& keys) {
    return run("estimate " + model + " --gpu H100 --placements 1 --json bf16=true " + keys);
  };
  const std::string large = "llama-3.1-8b --gpus 8", keys = "max_length=512 ";
  const Outcome shared = estimate(large, keys + "strategy=auto"), fsdp = estimate(large, keys + "strategy=fsdp");
  ASSERT_EQ(shared.status, 0) << shared.errors;
  EXPECT_THAT(shared.errors, ContainsRegex("strategy: auto takes fsdp: with ddp a rank would need [0-9.]+ GiB of "));
  const Json plan = Json::parse(shared.output);
  EXPECT_EQ(plan.at("strategy"), "fsdp");
  EXPECT_EQ(plan, Json::parse(fsdp.output));

  const Outcome whole = estimate("smollm2-135m --gpus 2", keys + "strategy=auto");
  ASSERT_EQ(whole.status, 0) << whole.errors;
  EXPECT_THAT(whole.errors, HasSubstr("strategy: auto takes ddp"));
  EXPECT_EQ(Json::parse(whole.output).at("strategy"), "ddp");

  const Outcome alone = estimate("smollm2-135m", keys + "strategy=auto");
  EXPECT_EQ(Json::parse(alone.output).at("strategy"), nullptr);
  EXPECT_THAT(alone.errors, Not(HasSubstr("auto takes")));

  const Outcome refused = estimate(large, keys + "strategy=auto optim=adafactor");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("strategy: auto cannot take fsdp, and with ddp a rank would need "),
                                    HasSubstr("expected not adafactor")));
}

TEST_F(AutoStrategy, IsRefusedByASearchOfStrategies) {
  const Outcome advised = run("advise smollm2-135m --gpu H100 --gpus 2 max_length=64 strategy=auto");
  EXPECT_EQ(advised.status, 2);
  EXPECT_THAT(advised.errors, HasSubstr("set strategy=ddp or strategy=fsdp: where techniques vary"));
}

}  // namespace
}  // namespace fathom
