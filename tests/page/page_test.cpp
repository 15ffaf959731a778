// The page holds the run's figures, needs nothing but itself, and shows what comes from files as text only.
#include "page/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "page/stack.h"
#include "tests/page/example.h"

namespace fathom::page {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Json three(int64_t analytic, int64_t dry_run, const Json& measured) {
  return {{"analytic", analytic}, {"dry_run", dry_run}, {"measured", measured}};
}

RunRecord example_record() {
  RunRecord record;
  record.name = "run-17";
  record.files = {"metrics.jsonl", "memory.json"};
  record.config = "method: full\n";
  record.predicted = random_timeline(7, 5, 400);
  record.measured = record.predicted;
  record.memory = {
      {"schema_version", 1},
      {"run",
       {{"model", "models/tiny-llama"},
        {"method", "full"},
        {"dtype", "float32"},
        {"seconds", 75.0},
        {"date", "2026-11-23 20:01 UTC"},
        {"machine", "AMD EPYC, 2 cores"},
        {"version", "0.1.0"},
        {"command", "fathom train run.yaml"},
        {"kept_step", 9}}},
      {"target", {{"name", "CPU"}, {"threads", 2}, {"phantom", false}, {"capacity", 16 << 20}}},
      {"needed", 7654321},
      {"fit", "fits"},
      {"missing", 0},
      {"workload", {{"parameters", 1234567}, {"trained_parameters", 1234567}, {"steps", {{{16, 34, 500}}}}}},
      {"peak", three(7654000, 7654321, 7654321)},
      {"phases", {{"backward", {{"peak", {{"dry_run", 7654321}, {"measured", 7654321}}}, {"end", Json::object()}}}}},
      {"rules_of_thumb",
       {{{"name", "training takes 24 bytes per parameter"}, {"bytes", 29629608}, {"relative_error", 2.871}}}}};
  for (const memory::Component component : memory::kComponents) {
    record.memory["components"][std::string(component_name(component))] =
        three(0, 1111111 + static_cast<int>(component), 1111111 + static_cast<int>(component));
  }
  for (int step = 1; step <= 9; ++step) {
    report::StepMetrics metrics;
    metrics.step = step;
    metrics.loss = 3.25 / step;
    metrics.tokens = step * 100;
    metrics.tokens_per_second = 543;
    metrics.interval_seconds = 0.5;
    record.steps.push_back(metrics);
  }
  record.evaluations = {{0, 0, 4.5, 100, 1}, {9, 1, 0.875, 100, 1}};
  return record;
}

TEST(ReportPage, HoldsTheFigures) {
  const std::string page = report_page(example_record());
  for (const char* text : {"models/tiny-llama",
                           "Full fine-tuning in FP32",
                           "CPU, 2 threads",
                           "1,234,567 parameters, all trained",
                           "16 × 34 tokens",
                           "predicted = measured, <em>0 bytes off</em>",
                           "7.30 MiB",
                           "7,654,321",
                           "7,654,000",
                           "1,111,117",
                           "0.8750",
                           "4.5000 before training, −80.6 %",
                           "543",
                           "1m15s",
                           "training takes 24 bytes per parameter",
                           "× 3.9",
                           "2026-11-23 20:01 UTC",
                           "took 1m15s",
                           "on AMD EPYC, 2 cores",
                           "fathom 0.1.0",
                           "<code>fathom train run.yaml</code>",
                           "<h2>Fits</h2>",
                           "8.70 MiB of headroom",
                           "method: full"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

TEST(ReportPage, SaysWhereTheTwoTimelinesAreEqual) {
  RunRecord record = example_record();
  EXPECT_THAT(report_page(record), HasSubstr("in the same order, byte for byte"));
  EXPECT_THAT(report_page(record), HasSubstr("peak " + format_bytes(record.predicted->peak)));
  record.measured->blocks[0].bytes++;
  EXPECT_THAT(report_page(record), Not(HasSubstr("byte for byte")));
}

TEST(ReportPage, SetsTheTwoTimelinesBesideEachOtherOnlyWhereTheyDiffer) {
  RunRecord record = example_record();
  const std::string shown = format_count(without_scratch(*record.predicted).events);
  EXPECT_THAT(report_page(record),
              HasSubstr("<b class=\"equal\">measured − predicted: 0</b> at all " + shown + " events"));
  EXPECT_THAT(report_page(record), Not(HasSubstr("<b>Measured</b>")));
  memory::Timeline::Block& last = record.measured->blocks.back();
  last.kernel_scratch = false;
  record.predicted->blocks.back() = last;
  last.bytes += 4096;
  const std::string page = report_page(record);
  EXPECT_THAT(page, ::testing::AllOf(HasSubstr("<b>Predicted</b>"), HasSubstr("<b>Measured</b>")));
  EXPECT_THAT(page, HasSubstr("then they part, by 4.00 KiB at most"));
}

TEST(ReportPage, BeginsWithTheVerdict) {
  RunRecord record = example_record();
  record.measured.reset();
  record.memory["missing"] = 1 << 20;
  record.memory["fit"] = "does not fit";
  record.memory["target"]["capacity"] = 6 << 20;
  record.memory["needed"] = 7 << 20;
  std::string page = report_page(record);
  EXPECT_THAT(page, HasSubstr("<section id=\"verdict\" class=\"bad\">\n<h2>Does not fit: 1.00 MiB missing</h2>"));
  EXPECT_THAT(page, HasSubstr("The run needs 7.00 MiB of tensors, this machine has 6.00 MiB free."));
  EXPECT_THAT(page, HasSubstr("<code>fathom advise</code> finds what fits"));
  EXPECT_LT(page.find("id=\"verdict\""), page.find("class=\"headlines\""));
  record.predicted->peak = 7 << 20;
  EXPECT_THAT(report_page(record), HasSubstr("<div class=\"capacity\"")) << "a line in the picture too";

  record.memory["missing"] = 0;
  record.memory["fit"] = "not proved";
  record.memory["target"] = {{"name", "H100"}, {"capacity", 8 << 20}, {"bounded_by", "memory_budget"}};
  record.memory["reserved"] = {{"dry_run", 7 << 20}, {"range", {7 << 20, 7 << 20}}};
  page = report_page(record);
  EXPECT_THAT(page, HasSubstr("class=\"unsure\">\n<h2>Near the limit: not proved to fit</h2>"));
  EXPECT_THAT(page, HasSubstr("The run needs 7.00 MiB reserved, memory_budget is 8.00 MiB: 1.00 MiB of headroom"));

  record.memory["target"].erase("capacity");
  EXPECT_THAT(report_page(record), Not(HasSubstr("id=\"verdict\""))) << "nothing is known to hold it against";
}

// The terminal's figures: a process takes more than its tensors, and has less headroom.
TEST(ReportPage, HoldsAllThatTheProcessTakesAgainstTheMachine) {
  RunRecord record = example_record();
  record.memory["resident"] = {{"dry_run", 12 << 20}, {"measured", 9 << 20}};
  std::string page = report_page(record);
  EXPECT_THAT(page,
              HasSubstr("The run needs 7.30 MiB of tensors, and at most 12.00 MiB with all that the process takes "
                        "besides, this machine has 16.00 MiB free: 4.00 MiB of headroom."));
  EXPECT_THAT(page, HasSubstr("title=\"the process besides, at most 4.70 MiB\""));
  EXPECT_THAT(page, HasSubstr("<h3>Resident memory of the process</h3>"));
  EXPECT_THAT(page, HasSubstr("<dt>grows by at most</dt><dd>12.00 MiB</dd>"));
  EXPECT_THAT(page, HasSubstr("<dt>grew by</dt><dd>9.00 MiB</dd>"));

  record.memory["resident"]["dry_run"] = 17 << 20;
  record.memory["fit"] = "not proved";
  page = report_page(record);
  EXPECT_THAT(page, HasSubstr("besides, this machine has 16.00 MiB free.</p>")) << "no headroom, and no driver";
  EXPECT_THAT(page, HasSubstr("not proved to fit"));

  record.memory["fit"] = "fits";
  record.memory["target"]["bounded_by"] = "memory_budget";
  EXPECT_THAT(report_page(record), HasSubstr("8.70 MiB of headroom")) << "a budget is of tensors alone";
}

TEST(ReportPage, NamesThePrecisionOfFilesThatDoNot) {
  RunRecord record = example_record();
  record.memory["run"]["dtype"] = nullptr;
  EXPECT_THAT(report_page(record), HasSubstr("Full fine-tuning in FP32"));
  record.memory["run"]["method"] = "lora";
  EXPECT_THAT(report_page(record), HasSubstr("<li>LoRA fine-tuning</li>")) << "that of the model, which is not known";
}

TEST(ReportPage, DrawsManyPointsAsASmoothedLineOverABand) {
  RunRecord record = example_record();
  EXPECT_THAT(report_page(record), Not(HasSubstr("class=\"spread")));
  record.steps.resize(500, record.steps.back());
  for (size_t i = 0; i < record.steps.size(); ++i) {
    record.steps[i].step = static_cast<int>(i) + 1;
    record.steps[i].tokens_per_second = i % 2 == 0 ? 100 : 300;
  }
  EXPECT_THAT(report_page(record), HasSubstr("class=\"spread s2\""));
  EXPECT_THAT(report_page(record), HasSubstr("the line is their mean"));
}

TEST(ReportPage, OfAPlanHasNoColumnsOfAMeasurement) {
  RunRecord record = example_record();
  EXPECT_THAT(report_page(record), HasSubstr(">measured</th>"));
  record.measured.reset();
  record.files.clear();
  record.memory["run"]["kind"] = "plan";
  record.memory["peak"]["measured"] = nullptr;
  record.memory["phases"]["backward"]["peak"]["measured"] = nullptr;
  for (auto& component : record.memory["components"]) component["measured"] = nullptr;
  record.memory["arithmetic"] = {{"matrix_flops", 989400000000000}, {"bytes_moved", 15620630000}};
  record.memory["host"] = {{"program", 1 << 20}};
  record.memory["time"] = {{"matrix_flops_per_second", 9.894e14}, {"matrix_efficiency", 0.62}, {"step_seconds", 1.5}};
  const std::string page = report_page(record);
  for (const char* text : {">measured</th>", ">difference</th>", "beside this page", "metrics.jsonl"}) {
    EXPECT_THAT(page, Not(HasSubstr(text)));
  }
  for (const char* text : {"no other file belongs to this page", "<dd>989 TFLOP</dd>", "<dd>15.6 GB</dd>",
                           "<dd>989 TFLOP/s</dd>", "<dd>62 %</dd>", "<dd>1.50 s</dd>", "<dd>1.00 MiB</dd>"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

TEST(ReportPage, NamesOnlyFilesThatAreThere) {
  EXPECT_THAT(report_page(example_record()), HasSubstr("from metrics.jsonl and memory.json in the run's folder"));
}

// The final weights' loss, whichever evaluation came last.
TEST(ReportPage, NamesTheEvaluationOfTheKeptWeights) {
  RunRecord record = example_record();
  record.evaluations = {{0, 0, 4.5, 100, 1}, {5, 1, 1.25, 100, 1}, {9, 2, 1.75, 100, 1}};
  record.memory["run"]["kept_step"] = 5;
  EXPECT_THAT(report_page(record),
              HasSubstr("<b>1.2500</b><span>of the final weights, those of step 5; 4.5000 before"));
  EXPECT_THAT(report_page(record), HasSubstr("best, step 5: 1.25"));
  record.memory["run"]["kept_step"] = 8;
  EXPECT_THAT(report_page(record), HasSubstr("<b>1.7500</b><span>after step 9; "))
      << "those of step 8 were not evaluated";
  record.evaluations.erase(record.evaluations.begin());
  EXPECT_THAT(report_page(record), HasSubstr("1.2500 after step 5"));
}

TEST(ReportPage, TellsTheThroughputOfAllSteps) {
  RunRecord record = example_record();
  record.steps.resize(2);
  record.steps[0].tokens_per_second = 1000;
  record.steps[0].interval_seconds = 1;
  record.steps[1].tokens_per_second = 100;
  record.steps[1].interval_seconds = 9;
  EXPECT_THAT(report_page(record), HasSubstr("<b>190</b><span>tokens per second: 1,900 in 10.0 s of steps"))
      << "1,900 tokens in 10 s, not the median of the two";
}

TEST(ReportPage, ShowsADifference) {
  RunRecord record = example_record();
  record.memory["peak"] = three(7654000, 7654321, 7654333);
  const std::string page = report_page(record);
  EXPECT_THAT(page, HasSubstr("measured +12"));
  EXPECT_THAT(page, HasSubstr("<span class=\"unequal\">+12</span>"));
  EXPECT_THAT(page, Not(HasSubstr("0 bytes off")));
}

TEST(ReportPage, NeedsNothingButItself) {
  const std::string page = report_page(example_record());
  for (const char* fetching : {"src=", "@import", "url(", "<link", "fetch(", "XMLHttpRequest", "https://"}) {
    EXPECT_THAT(page, Not(HasSubstr(fetching)));
  }
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

TEST(ReportPage, ShowsOnlyTextOfWhatComesFromFiles) {
  const std::string evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&";
  RunRecord record = example_record();
  record.name = evil;
  record.config = evil;
  record.predicted->names[1] = evil;
  record.measured.reset();
  record.memory["run"] = {{"model", evil},   {"method", evil},  {"dtype", evil},  {"date", evil},
                          {"machine", evil}, {"version", evil}, {"command", evil}};
  record.memory["target"]["capacity"] = 8 << 20;
  record.memory["arithmetic"] = {{evil, evil}, {"source", evil}};
  record.memory["target"]["name"] = evil;
  record.memory["target"]["attention_kernel"] = evil;
  record.memory["rules_of_thumb"][0]["name"] = evil;
  record.memory["rules_of_thumb"][0]["reason"] = evil;
  record.memory["rules_of_thumb"][0]["here"] = evil;
  record.memory["phases"] = {{evil, record.memory["phases"]["backward"]}};
  record.memory["host"] = {{evil, evil}};
  record.memory[evil] = {{"a", 1}};
  record.memory["derivation"] = {{{"what", evil}, {"formula", evil}, {"source", evil}, {"bytes", 1}, {"layers", 2}}};
  const std::string page = report_page(record);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, HasSubstr("&lt;img src=x onerror=alert(2)&gt;"));
  const std::regex scripts("<script");
  EXPECT_EQ(std::distance(std::sregex_iterator(page.begin(), page.end(), scripts), std::sregex_iterator()), 6)
      << "timelines, four figures, the page's own";
}

TEST(ReportPage, OfAnInterruptedRunShowsWhatIsThere) {
  RunRecord record;
  record.name = "run-17";
  record.memory = Json::object();
  record.config = "method: lora\n";
  const std::string page = report_page(record);
  EXPECT_THAT(page, HasSubstr("<h1>run-17</h1>"));
  EXPECT_THAT(page, HasSubstr("has not ended"));
  EXPECT_THAT(page, Not(HasSubstr("id=\"timeline\"")));
  EXPECT_THAT(page, Not(HasSubstr("id=\"training\"")));
  EXPECT_THAT(page, HasSubstr("method: lora"));
}

TEST(ReportPage, OfARunThatFailedSaysWhy) {
  RunRecord record;
  record.memory = {{"run", {{"failure", "out of memory: <b>"}}}};
  const std::string page = report_page(record);
  EXPECT_THAT(page, HasSubstr("This run failed, and what was measured is missing: out of memory: &lt;b&gt;</p>"));
  EXPECT_THAT(page, Not(HasSubstr("has not ended")));
}

TEST(ReportPage, RefusesFiguresThatAreNone) {
  RunRecord record = example_record();
  record.memory["components"]["weights"]["dry_run"] = "many";
  EXPECT_THROW(report_page(record), Error);
}

TEST(ReportPage, DrawsAttentionWhereItWasMeasured) {
  RunRecord record = example_record();
  EXPECT_THAT(report_page(record), Not(HasSubstr("id=\"attention\"")));
  record.memory["attention"] = Json::array();
  for (const int64_t length : {512, 1024, 2048}) {
    record.memory["attention"].push_back(
        {{"length", length},
         {"flash", {{"dry_run", length * 64}, {"measured", length * 64}, {"seconds", 0.001}}},
         {"math", {{"dry_run", length * length * 4}, {"measured", nullptr}, {"seconds", nullptr}}}});
  }
  const std::string page = report_page(record);
  EXPECT_THAT(page, HasSubstr("id=\"attention\""));
  EXPECT_THAT(page, HasSubstr("16.00 MiB")) << "math attention at 2,048";
  EXPECT_THAT(page, HasSubstr("1 ms"));
  EXPECT_THAT(page, HasSubstr("flash, measured"));
  EXPECT_THAT(page, Not(HasSubstr("math, measured")));
}

TEST(ReportPage, DrawsAttentionAsFarAsTheRunCanReach) {
  RunRecord record = example_record();
  record.memory["attention"] = Json::array();
  for (int64_t length = 512; length <= 131072; length *= 2) {
    record.memory["attention"].push_back({{"length", length}, {"flash", {{"dry_run", length * 64}}}});
  }
  std::string page = report_page(record);
  EXPECT_THAT(page, HasSubstr("<th scope=\"row\">4,096</th>")) << "four lengths at least";
  EXPECT_THAT(page, Not(HasSubstr("<th scope=\"row\">8,192</th>"))) << "of a run of 34 tokens";
  record.memory["workload"]["steps"] = {{{1, 2048, 2048}}};
  page = report_page(record);
  EXPECT_THAT(page, HasSubstr("<th scope=\"row\">16,384</th>"));
  EXPECT_THAT(page, Not(HasSubstr("<th scope=\"row\">32,768</th>")));
}

TEST(ReportPage, OfAPhantomGpuShowsNoLossesAndTimes) {
  RunRecord record = example_record();
  record.memory["target"]["phantom"] = true;
  record.memory["reserved"] = {{"dry_run", 20 << 20}, {"range", {20 << 20, 22 << 20}}, {"measured", 22 << 20}};
  const std::string page = report_page(record);
  EXPECT_THAT(page, HasSubstr("Played on a phantom GPU"));
  EXPECT_THAT(page, HasSubstr("<b>22.00 MiB</b><span>by the caching allocator, <em>as predicted</em>"));
  EXPECT_THAT(page, Not(HasSubstr("Evaluation loss")));
  EXPECT_THAT(page, Not(HasSubstr("id=\"training\"")));
  record.memory["reserved"]["measured"] = 23 << 20;
  EXPECT_THAT(report_page(record), HasSubstr("outside of the predicted range"));
}

TEST(ReportPage, SaysWhyThePredictedStepIsShorter) {
  RunRecord record = example_record();
  record.predicted->phases.pop_back();
  EXPECT_THAT(report_page(record), HasSubstr("as many batches of a step as can make the largest peak"));
}

TEST(ReportPage, ShowsRewardsOfPreferences) {
  RunRecord record = example_record();
  EXPECT_THAT(report_page(record), Not(HasSubstr("Rewards")));
  for (report::StepMetrics& step : record.steps) {
    step.more = {{"rewards/chosen", 0.5}, {"rewards/rejected", -0.25}, {"rewards/margins", 0.75}};
  }
  record.evaluations.back().more = {{"rewards/accuracies", 0.875}};
  const std::string page = report_page(record);
  EXPECT_THAT(page, HasSubstr("Rewards over steps, at the end chosen 0.5, rejected -0.25, margin 0.75"));
  EXPECT_THAT(page, HasSubstr("at the end evaluation 0.875"));
}

TEST(ReportPage, ShowsTheRulesThatAreMeantFirst) {
  RunRecord record = example_record();
  record.memory["rules_of_thumb"] = {
      {{"name", "for others"}, {"bytes", 1}, {"relative_error", -0.5}, {"here", "it takes 5 bytes"}},
      {{"name", "for this one"},
       {"bytes", 2},
       {"relative_error", 0.0},
       {"here", "it takes 5 bytes"},
       {"component", "total"}}};
  std::string page = report_page(record);
  EXPECT_LT(page.find("for this one"), page.find("<summary>1 more, meant for other runs"));
  EXPECT_LT(page.find("<summary>1 more, meant for other runs"), page.find("for others"));
  EXPECT_THAT(page, HasSubstr("exact"));
  record.memory["rules_of_thumb"][1]["relative_error"] = -0.000456;
  EXPECT_THAT(report_page(record), Not(HasSubstr("exact</span>"))) << "but of 0";
  EXPECT_THAT(report_page(record), HasSubstr("−0.05 %"));
  const size_t once = page.find("Here it takes 5 bytes.");
  EXPECT_NE(once, std::string::npos);
  EXPECT_EQ(page.find("Here it takes 5 bytes.", once + 1), std::string::npos);
}

TEST(ReportPage, SaysOfKernelScratchWhatTheTerminalSays) {
  RunRecord record = example_record();
  record.memory["kernel_scratch"] = {{"dry_run", 704}, {"measured", 640}};
  record.memory["peak_with_scratch"] = {{"dry_run", 16050}, {"measured", nullptr}};
  const std::string page = report_page(record);
  EXPECT_THAT(page, HasSubstr("Kernel scratch (what operators take and give back within one call; not in the figures "
                              "above): 640 B measured, at most 704 B predicted<"));
  EXPECT_THAT(page, HasSubstr("at one instant: at most 15.67 KiB predicted<"));
}

TEST(ReportPage, ShowsNoNumberBeyondThoseOfBytes) {
  RunRecord record = example_record();
  for (const auto& [value, text] : std::vector<std::pair<double, std::string>>{
           {1e300, "7.81 EiB more than"}, {-1e300, "7.81 EiB less than"}, {-2048, "2.00 KiB less than"}}) {
    record.memory["unexplained"] = value;
    EXPECT_THAT(report_page(record), HasSubstr("memory grew by " + text));
  }
}

TEST(ReportPage, StaysSmall) {
  RunRecord record = example_record();
  record.predicted = random_timeline(11, 2000, 20000);
  record.measured.reset();
  EXPECT_LT(report_page(record).size(), size_t{1} << 20);
}

}  // namespace
}  // namespace fathom::page
