// `fathom report RUN`: the page of a run anew, from the files in its folder.
#include <memory>

#include "app/command.h"
#include "base/error.h"
#include "base/file.h"
#include "base/output.h"
#include "page/page.h"
#include "page/snapshot.h"

namespace fathom::app {
namespace {

class Report final : public Command {
 public:
  Report() : Command("report", "The page of a run, report.html, anew from the files in its folder") {}
  std::vector<Option> options() override {
    return {Option("RUN", folder_, "", "A run's output_dir").require(),
            {"--out", out_, "FILE", "The page to write, instead of RUN/report.html"},
            {"--snapshot", snapshot_, "FILE.pickle", "Also the largest step for `python -m torch.cuda._memory_viz`"}};
  }
  int run() const override;

 private:
  std::filesystem::path folder_, out_, snapshot_;
};

int Report::run() const {
  const page::RunRecord record = page::read_run_record(folder_);
  const std::filesystem::path out = out_.empty() ? folder_ / "report.html" : out_;
  write_file_atomically(out, page::report_page(record));
  print("report: " + out.string() + "\n");
  if (snapshot_.empty()) return 0;

  const std::optional<memory::Timeline>& timeline = record.measured ? record.measured : record.predicted;
  if (!timeline) {
    throw Error(folder_.string() + " holds no timeline.json, so there is no snapshot to write",
                "run `fathom train` again; it leaves one");
  }
  write_file_atomically(snapshot_, page::snapshot_pickle(*timeline));
  print(std::string("snapshot (") + (record.measured ? "measured" : "predicted") + "): " + snapshot_.string() + "\n");
  return 0;
}

}  // namespace

std::unique_ptr<Command> make_report() { return std::make_unique<Report>(); }

}  // namespace fathom::app
