// What is told of a script on a phantom GPU.
#include "report/script_answer.h"

#include <gmock/gmock.h>

#include <initializer_list>
#include <utility>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Json written() {
  return {{"torch", "2.11.0+cu130"},
          {"finished", true},
          {"used_gpu", true},
          {"rank", 0},
          {"process", 4711},
          {"began", 1},
          {"device", 0},
          {"steps", 3},
          {"requested", 3'000'000},
          {"allocated", 3'100'000},
          {"reserved", 20'000'000},
          {"allocated_at_end", 1'000'000},
          {"reserved_at_end", 20'000'000},
          {"peak",
           {{"requested", 3'000'000},
            {"step", 2},
            {"phase", "backward"},
            {"components", {{"weights", 1'000'000}, {"activations", 2'000'000}}},
            {"blocks", {{{"place", "train.py:8"}, {"component", "activations"}, {"bytes", 2'000'000}, {"count", 2}}}}}},
          {"refusal", nullptr},
          {"survived", 0},
          {"reads", Json::array()},
          {"written", Json::array()}};
}

ScriptAnswer answer_of(const Json& value) {
  ScriptAnswer answer;
  answer.gpu.name = "H100";
  answer.gpu.memory_bytes = int64_t{80} << 30;
  answer.command = "fathom phantom";
  answer.processes.push_back(ScriptProcess::from_json(value, "the report"));
  return answer;
}

TEST(ScriptAnswer, TellsBytesAndLines) {
  const ScriptAnswer answer = answer_of(written());
  EXPECT_TRUE(answer.fits());
  EXPECT_THAT(format_script(answer), AllOf(HasSubstr("requested              3,000,000    2.86 MiB"),
                                           HasSubstr("Requested most in step 2, backward"), HasSubstr("train.py:8"),
                                           HasSubstr("Fits: H100"), HasSubstr("No number that only a GPU knows")));
  const Json json = script_json(answer);
  EXPECT_EQ(json.at("fits"), true);
  EXPECT_EQ(json.at("processes").at(0).at("peak").at("components").at("weights"), 1'000'000);
  EXPECT_EQ(json.at("processes").at(0).at("peak").at("blocks").at(0).at("count"), 2);
}

TEST(ScriptAnswer, TellsReadsByPlaceAndOnce) {
  Json value = written();
  for (const int64_t numbers : {4, 16}) {
    value["reads"].push_back(
        {{"place", "save.py:9"}, {"what", std::to_string(numbers) + " numbers"}, {"how", "read"}, {"times", 30}});
  }
  for (int line = 0; line < 12; ++line) {
    value["reads"].push_back(
        {{"place", "train.py:" + std::to_string(line)}, {"what", "a number"}, {"how", "read"}, {"times", 1}});
  }
  const std::string text = format_script(answer_of(value));
  EXPECT_THAT(text, AllOf(HasSubstr("save.py:9: 4 numbers, 60 times"), HasSubstr("and 1 other place"),
                          Not(HasSubstr("No number"))));
  EXPECT_EQ(script_json(answer_of(value)).at("processes").at(0).at("reads").size(), 14U);
}

TEST(ScriptAnswer, TellsARangeOverPlacements) {
  ScriptAnswer answer = answer_of(written()), other = answer, refused = answer;
  EXPECT_THAT(format_script(answer), Not(HasSubstr("placements")));
  other.processes[0].reserved = 30'000'000;
  refused.processes[0].refusal = ScriptProcess::Refusal{.phase = "forward", .place = "a.py:3"};
  answer.placements = placements_of(answer);
  answer.placements.add(placements_of(other));
  answer.placements.add(placements_of(refused));
  EXPECT_THAT(format_script(answer),
              HasSubstr("Over 3 placements of the allocator's segments: allocated 3,100,000, reserved\n  "
                        "20,000,000 … 30,000,000; in 1 of them memory ran out."));
  EXPECT_EQ(script_json(answer).at("placements").at("reserved"), Json({20'000'000, 30'000'000}));
}

TEST(ScriptAnswer, DoesNotFitWhereMemoryRanOut) {
  Json value = written();
  value["refusal"] = {
      {"bytes", 1 << 20}, {"allocated", 3'100'000}, {"step", 2}, {"phase", "forward"}, {"place", "a.py:3"}};
  EXPECT_FALSE(answer_of(value).fits());
  EXPECT_THAT(format_script(answer_of(value)), AllOf(HasSubstr("Out of memory in step 2, forward: 1.00 MiB"),
                                                     HasSubstr("at a.py:3"), HasSubstr("Does not fit: H100")));
  value = written();
  value["survived"] = 2;
  EXPECT_TRUE(answer_of(value).fits());
  EXPECT_THAT(format_script(answer_of(value)), HasSubstr("ran out of memory 2 times before, and went on"));
}

TEST(ScriptAnswer, HasTheStepWithThePeakWhereItIsTold) {
  Json value = written();
  EXPECT_FALSE(ScriptProcess::from_json(value, "the report").timeline);
  value["timeline"] = {{"names", {"", "train.py:8"}},
                       {"events", 3},
                       {"peak", 3'000'000},
                       {"peak_position", 2},
                       {"phases", {{"forward", 0, 2}, {"backward", 2, 3}}},
                       {"blocks", {{1'000'000, 0, -1, "weights", 0}, {2'000'000, 2, 3, "activations", 1}}}};
  const auto timeline = ScriptProcess::from_json(value, "the report").timeline;
  ASSERT_TRUE(timeline);
  ASSERT_EQ(timeline->blocks.size(), 2U);
  EXPECT_EQ(timeline->blocks[0].component, memory::Component::kWeights);
  EXPECT_EQ(timeline->blocks[0].given_back, memory::Timeline::kNever);
  EXPECT_EQ(timeline->names.at(timeline->blocks[1].name), "train.py:8");
  EXPECT_EQ(timeline->phases.at(1).phase, memory::Phase::kBackward);
  value["timeline"]["blocks"][0][3] = "nothing";
  EXPECT_THROW(ScriptProcess::from_json(value, "the report"), Error);
}

TEST(ScriptAnswer, OfSeveralRanksTellsALineEachAndTheFullest) {
  ScriptAnswer answer = answer_of(written());
  Json value = written();
  value["rank"] = value["device"] = 1;
  value["reserved"] = 30'000'000;
  answer.processes.push_back(ScriptProcess::from_json(value, "the report"));
  answer.gpus = 4;
  answer.lost = {2};
  EXPECT_THAT(format_script(answer),
              AllOf(HasSubstr("Rank 0, GPU 0  "), HasSubstr("Rank 1, GPU 1:\n"), HasSubstr("30,000,000"),
                    HasSubstr("  rank 2 was killed"),
                    HasSubstr("Not known whether it fits: 4 × H100 (80.00 GiB), of which at most 28.61 MiB")));
  EXPECT_EQ(script_json(answer).at("processes").at(1).at("device"), 1);
  answer.processes.front().refusal =
      ScriptProcess::Refusal{.bytes = 1 << 20, .allocated = 0, .step = 1, .phase = "forward", .place = ""};
  EXPECT_THAT(format_script(answer), AllOf(HasSubstr("Rank 0, GPU 0:\n"), HasSubstr("Rank 0, GPU 0: Out of memory")));
}

TEST(ScriptAnswer, SumsProcessesThatMayRunAtOnce) {
  ScriptAnswer answer = answer_of(written());
  answer.processes.push_back(answer.processes.front());
  answer.processes.back().process = 4712;
  answer.devices[0] = {.bytes = 40'000'000, .processes = 2};
  EXPECT_THAT(format_script(answer),
              AllOf(HasSubstr("Process 4711, GPU 0  "), HasSubstr("Process 4712, GPU 0  "), HasSubstr("Fits: H100"),
                    HasSubstr("of which at most 38.15 MiB were reserved, by 2 processes\n  that may run at once")));
  answer.devices[0].bytes = answer.gpu.memory_bytes + 1;
  EXPECT_FALSE(answer.fits());
  EXPECT_THAT(format_script(answer), AllOf(HasSubstr("Does not fit: H100"), HasSubstr("80.00 GiB of GPU 0")));
  EXPECT_EQ(script_json(answer).at("fits"), false);
  EXPECT_EQ(script_json(answer).at("devices").at(0).at("processes"), 2);
}

TEST(ScriptAnswer, DoesNotKnowWhatNobodyTold) {
  for (const auto& [spoil, why] : std::initializer_list<std::pair<void (*)(ScriptAnswer&), const char*>>{
           {[](ScriptAnswer& answer) { answer.lost = {0}; }, "rank 0 was killed"},
           {[](ScriptAnswer& answer) { answer.unfollowed = {"python -I a.py"}; },
            "nothing is known of 'python -I a.py'"},
           {[](ScriptAnswer& answer) { answer.left = {"process 3 (sleep)"}; }, "process 3 (sleep) went on"},
           {[](ScriptAnswer& answer) { answer.exit_status = 7; }, "has ended with status 7"}}) {
    ScriptAnswer answer = answer_of(written());
    spoil(answer);
    EXPECT_FALSE(answer.fits()) << why;
    EXPECT_FALSE(answer.does_not_fit()) << why;
    EXPECT_TRUE(script_json(answer).at("fits").is_null()) << why;
    EXPECT_THAT(format_script(answer),
                AllOf(HasSubstr("Not known whether it fits: H100"), HasSubstr(why), Not(HasSubstr("Fits"))));
    answer.processes.front().refusal = ScriptProcess::Refusal{};
    EXPECT_TRUE(answer.does_not_fit()) << why;
  }
}

TEST(ScriptAnswer, OfAProcessThatTellsNothingIsShort) {
  EXPECT_FALSE(ScriptProcess::from_json({{"torch", "2.11.0"}, {"finished", false}}, "the report").finished);
  EXPECT_EQ(ScriptProcess::from_json({{"torch", "2.1"}, {"objection", "too old"}}, "the report").objection, "too old");
}

TEST(ScriptAnswer, RefusesAnotherForm) {
  for (const char* key : {"steps", "peak", "reads", "survived", "torch"}) {
    Json value = written();
    value.erase(key);
    EXPECT_THROW(ScriptProcess::from_json(value, "the report"), Error) << key;
    value[key] = -1;
    EXPECT_THROW(ScriptProcess::from_json(value, "the report"), Error) << key;
  }
}

}  // namespace
}  // namespace fathom::report
