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
#include "page/stack.h"
#include "tests/page/example.h"

namespace fathom::page {
namespace {

using testing::HasSubstr;
using testing::Not;

Json three(int64_t analytic, int64_t dry_run, const Json& measured) {
  return {{"analytic", analytic}, {"dry_run", dry_run}, {"measured", measured}};
}

RunRecord example_record() {
  RunRecord record;
  record.name = "run-17";
  record.config = "method: full\n";
  record.predicted = random_timeline(7, 5, 400);
  record.measured = record.predicted;
  record.memory = {
      {"schema_version", 1},
      {"run", {{"model", "models/tiny-llama"}, {"method", "full"}, {"dtype", "float32"}, {"seconds", 75.0}}},
      {"target", {{"name", "CPU"}, {"threads", 2}, {"phantom", false}}},
      {"workload", {{"parameters", 1234567}, {"trained_parameters", 1234567}, {"steps", {{{16, 34, 500}}}}}},
      {"peak", three(7654000, 7654321, 7654321)},
      {"phases", {{"backward", {{"peak", {{"dry_run", 7654321}, {"measured", 7654321}}}, {"end", Json::object()}}}}},
      {"rules_of_thumb",
       {{{"name", "training takes 24 bytes per parameter"}, {"bytes", 29629608}, {"relative_error", 2.871}}}}};
  for (const ledger::Component component : ledger::kComponents) {
    record.memory["components"][std::string(component_name(component))] =
        three(0, 1111111 + static_cast<int>(component), 1111111 + static_cast<int>(component));
  }
  for (int step = 1; step <= 9; ++step) {
    report::StepMetrics metrics;
    metrics.step = step;
    metrics.loss = 3.25 / step;
    metrics.tokens = step * 100;
    metrics.tokens_per_second = 543;
    record.steps.push_back(metrics);
  }
  record.evaluations = {{0, 0, 4.5, 100, 1}, {9, 1, 0.875, 100, 1}};
  return record;
}

TEST(ReportPage, HoldsTheFigures) {
  const std::string page = report_page(example_record());
  for (const char* text :
       {"models/tiny-llama", "Full fine-tuning in FP32", "CPU, 2 threads", "1,234,567 parameters, all trained",
        "16 × 34 tokens", "predicted = measured, <em>0 bytes off</em>", "7.30 MiB", "7,654,321", "7,654,000",
        "1,111,117", "0.875", "from 4.5, −81 %", "543", "1m15s", "training takes 24 bytes per parameter", "× 3.9",
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
  record.memory["run"] = {{"model", evil}, {"method", evil}, {"dtype", evil}};
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
  EXPECT_EQ(std::distance(std::sregex_iterator(page.begin(), page.end(), scripts), std::sregex_iterator()), 4)
      << "timelines, two figures, the page's own";
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

TEST(ReportPage, ShowsTheRulesThatAreMeantFirst) {
  RunRecord record = example_record();
  record.memory["rules_of_thumb"] = {
      {{"name", "for others"}, {"bytes", 1}, {"relative_error", -0.5}, {"here", "it takes 5 bytes"}},
      {{"name", "for this one"},
       {"bytes", 2},
       {"relative_error", 0.0},
       {"here", "it takes 5 bytes"},
       {"component", "total"}}};
  const std::string page = report_page(record);
  EXPECT_LT(page.find("<b>for this one</b>"), page.find("for others"));
  EXPECT_THAT(page, HasSubstr("exact"));
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
