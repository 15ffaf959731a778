// `fathom report RUN`: the page of a run anew, from the files in its folder.
#include "app/commands.h"
#include "base/error.h"
#include "base/file.h"
#include "base/output.h"
#include "page/page.h"
#include "page/snapshot.h"

namespace fathom::app {

int run_report(const Invocation& invocation) {
  const page::RunRecord record = page::read_run_record(invocation.subject);
  const std::filesystem::path out = invocation.out.empty() ? invocation.subject / "report.html" : invocation.out;
  write_file_atomically(out, page::report_page(record));
  print("report: " + out.string() + "\n");
  if (invocation.snapshot.empty()) return 0;

  const std::optional<ledger::Timeline>& timeline = record.measured ? record.measured : record.predicted;
  if (!timeline) {
    throw Error(invocation.subject.string() + " holds no timeline.json, so there is no snapshot to write",
                "run `fathom train` again; it leaves one");
  }
  write_file_atomically(invocation.snapshot, page::snapshot_pickle(*timeline));
  print(std::string("snapshot (") + (record.measured ? "measured" : "predicted") +
        "): " + invocation.snapshot.string() + "\n");
  return 0;
}

}  // namespace fathom::app
