// What a run leaves about itself, and `report`, which rebuilds the page from it without LibTorch.
#include <gmock/gmock.h>

#include "base/bytes.h"
#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Report : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::copy(fs::path(FATHOM_SOURCE_DIR) / "data" / "model", folder_ / "model");
    std::string lines;
    for (int i = 0; i < 12; ++i) {
      lines += Json{{"prompt", "What is " + std::to_string(i) + " plus one?\n"}, {"completion", std::to_string(i + 1)}}
                   .dump() +
               "\n";
    }
    write("data.jsonl", lines);
    write("run.yaml", R"(model_name_or_path: model
device: cpu
train_file: data.jsonl
per_device_train_batch_size: 4
max_steps: 3
logging_steps: 1
output_dir: out
)");
  }
  int64_t figure(const char* of, const char* which) {
    return read_json(folder_ / "out" / "memory.json").at(of).at(which).get<int64_t>();
  }
};

TEST_F(Report, ARunLeavesItsPageAndReportRebuildsIt) {
  const Outcome trained = run("train run.yaml");
  ASSERT_EQ(trained.status, 0) << trained.errors;
  EXPECT_THAT(trained.output, AllOf(HasSubstr("report: out/report.html"), HasSubstr("rule of thumb")));
  const std::string page = read_file(folder_ / "out" / "report.html");
  EXPECT_THAT(page, AllOf(HasSubstr("0 bytes off"), HasSubstr(format_count(figure("peak", "measured"))),
                          HasSubstr("in the same order, byte for byte"), HasSubstr("model.layers.*.mlp")));

  const Outcome again = run("report out --out page.html", "FATHOM_TORCH=/nonexistent ");
  ASSERT_EQ(again.status, 0) << again.errors;
  EXPECT_EQ(read_file(folder_ / "page.html"), page);
}

TEST_F(Report, TheSnapshotOpensInTorchsOwnTool) {
  ASSERT_EQ(run("train run.yaml").status, 0);
  const Outcome outcome = run("report out --snapshot x.pickle");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("snapshot (measured): x.pickle"));
  const std::string tool = "python3 " FATHOM_TORCH_DIR "/cuda/_memory_viz.py ",
                    in = "cd '" + folder_.string() + "' && ";
  ASSERT_EQ(std::system((in + tool + "trace_plot x.pickle -o plot.html").c_str()), 0);
  EXPECT_THAT(read_file(folder_ / "plot.html"), HasSubstr("Active Memory Timeline"));
  ASSERT_EQ(std::system((in + tool + "stats x.pickle > stats.txt").c_str()), 0);
  EXPECT_THAT(read_file(folder_ / "stats.txt"), HasSubstr("segments: 1\n"));
  write("peak.py", R"(
import pickle
live = peak = 0
for event in pickle.load(open("x.pickle", "rb"))["device_traces"][0]:
    live += {"alloc": event["size"], "free_completed": -event["size"]}.get(event["action"], 0)
    peak = max(peak, live)
print(peak)
)");
  ASSERT_EQ(std::system((in + "python3 peak.py > peak.txt").c_str()), 0);
  EXPECT_EQ(read_file(folder_ / "peak.txt"), std::to_string(figure("peak", "measured")) + "\n");
}

TEST_F(Report, AnInterruptedRunHasItsPrediction) {
  ASSERT_EQ(run("train run.yaml").status, 0);
  // As a run that was killed leaves them: the plan alone, and a torn line.
  Json memory = read_json(folder_ / "out" / "memory.json");
  memory["peak"]["measured"] = nullptr;
  write("killed/memory.json", format_json(memory));
  Json timelines = read_json(folder_ / "out" / "timeline.json");
  timelines.erase("measured");
  write("killed/timeline.json", timelines.dump());
  write("killed/metrics.jsonl", read_file(folder_ / "out" / "metrics.jsonl") + "{\"step\": 4, \"lo");
  const Outcome outcome = run("report killed");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(read_file(folder_ / "killed" / "report.html"),
              AllOf(HasSubstr("has not ended"), HasSubstr("<b>Predicted</b>"), Not(HasSubstr("<b>Measured</b>"))));
}

TEST_F(Report, WhatIsNoRunIsRefused) {
  write("empty/x.txt", "");
  EXPECT_EQ(run("report empty").status, 2);
  EXPECT_EQ(run("report nowhere").status, 2);
  write("odd/memory.json", R"({"schema_version": 1, "peak": {"dry_run": "<script>"}})");
  const Outcome odd = run("report odd");
  EXPECT_EQ(odd.status, 1);
  EXPECT_THAT(odd.errors, HasSubstr("peak.dry_run: expected an integer"));
  EXPECT_FALSE(fs::exists(folder_ / "odd" / "report.html"));
  write("old/config.yaml", "method: full\n");
  EXPECT_THAT(run("report old --snapshot x.pickle").errors, HasSubstr("no timeline.json"));
  EXPECT_THAT(run("report old --out none/x.html").errors,
              HasSubstr("cannot write 'none/x.html': there is no folder 'none'; create it"));
}

TEST_F(Report, OfAPlanAlone) {
  const Outcome outcome =
      run("estimate tinyllama-1.1b --gpu L4 --placements 1 method=lora max_length=64 --page plan.html");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const std::string page = read_file(folder_ / "plan.html");
  EXPECT_THAT(outcome.output, HasSubstr("\npage: plan.html\n"));
  EXPECT_THAT(page, AllOf(HasSubstr("<h1>tinyllama-1.1b</h1>"), HasSubstr("<li>LoRA fine-tuning in FP16</li>")));
  EXPECT_NE(page.find("A plan: nothing was run."), std::string::npos);
  EXPECT_LT(page.find("id=\"verdict\""), page.find("A plan: nothing was run.")) << "whether it fits comes first";
  EXPECT_THAT(page, Not(HasSubstr("range over placements"))) << "one placement has no range";
  EXPECT_THAT(page, HasSubstr("model.layers.*.mlp.up_proj.weight"));
}

}  // namespace
}  // namespace fathom
