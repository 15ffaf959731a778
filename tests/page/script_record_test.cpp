// The page of a PyTorch script on a phantom GPU.
#include "page/script_record.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json_value.h"
#include "page/page.h"

namespace fathom::page {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

report::ScriptAnswer answer() {
  report::ScriptAnswer answer;
  answer.gpu.name = "H100";
  answer.gpu.memory_bytes = int64_t{80} << 30;
  answer.command = "fathom phantom --gpu H100 -- python train.py";
  answer.seconds = 12;
  report::ScriptProcess process;
  process.finished = process.used_gpu = true;
  process.requested = 3 << 20;
  process.reserved = 20 << 20;
  process.components[memory::Component::kWeights] = 1 << 20;
  memory::Timeline timeline;
  timeline.names = {"", "train.py:8"};
  timeline.blocks = {{.bytes = 1 << 20, .component = memory::Component::kWeights},
                     {.bytes = 2 << 20, .taken = 1, .given_back = 2, .name = 1}};
  timeline.phases = {{memory::Phase::kForward, 0, 1}, {memory::Phase::kBackward, 1, 2}};
  timeline.events = 2;
  timeline.peak = 3 << 20;
  timeline.peak_position = 1;
  process.timeline = timeline;
  answer.processes = {process, {}};
  return answer;
}

TEST(ScriptRecord, MakesAPageOfTheFullestProcess) {
  const std::string page = report_page(script_record(answer(), {{"version", "0.1.0"}}));
  EXPECT_THAT(page, AllOf(HasSubstr("Fits"), HasSubstr("train.py:8"), HasSubstr("20.00 MiB"),
                          HasSubstr("Played on a phantom GPU"), HasSubstr("id=\"timeline\""),
                          HasSubstr("<h1>python train.py</h1>"), Not(HasSubstr("nothing was run"))));
}

TEST(ScriptRecord, TellsWhereMemoryRanOut) {
  report::ScriptAnswer refused = answer();
  refused.processes[0].refusal = {.bytes = 1 << 20, .step = 2, .phase = "backward", .place = "<train.py>:8"};
  const std::string page = report_page(script_record(refused, Json::object()));
  EXPECT_THAT(page, AllOf(HasSubstr("Does not fit"), HasSubstr("step 2, backward"), HasSubstr("&lt;train.py&gt;:8"),
                          Not(HasSubstr("fathom advise"))));
}

TEST(ScriptRecord, TellsWhatProcessesTakeTogether) {
  report::ScriptAnswer several = answer();
  several.devices[0] = {.bytes = int64_t{70} << 30, .processes = 2};
  EXPECT_THAT(report_page(script_record(several, Json::object())),
              AllOf(HasSubstr("<h2>Fits"), HasSubstr("70.00 GiB")));
  several.devices[0].bytes = int64_t{100} << 30;
  EXPECT_THAT(
      report_page(script_record(several, Json::object())),
      AllOf(HasSubstr("<h2>Does not fit"), HasSubstr("2 processes that may run at once take at most 100.00 GiB")));
}

TEST(ScriptRecord, SaysWhereNobodyKnows) {
  report::ScriptAnswer unknown = answer();
  unknown.exit_status = 3;
  EXPECT_THAT(
      report_page(script_record(unknown, Json::object())),
      AllOf(HasSubstr("<h2>Not known whether it fits"), HasSubstr("ended with status 3"), Not(HasSubstr("<h2>Fits"))));
}

TEST(ScriptRecord, SaysWithWhichNumber) {
  report::ScriptAnswer found = answer();
  found.found = {.word = "batch", .number = 6};
  EXPECT_EQ(script_record(found, Json::object()).name, "python train.py, with batch 6");
  found.found->number = 0;
  EXPECT_EQ(script_record(found, Json::object()).name, "python train.py, with batch 1");
}

TEST(ScriptRecord, NeedsAProcess) { EXPECT_THROW(script_record({}, Json::object()), Error); }

}  // namespace
}  // namespace fathom::page
