// Writes the files from which `fathom report` rebuilds the page.
#include "app/run_report.h"

#include "base/file.h"
#include "config/load.h"
#include "page/page.h"
#include "page/run_record.h"

namespace fathom::app {
namespace {

Json run_facts(const config::RunConfig& config, std::optional<double> seconds) {
  Json facts = {{"model", config.model_name_or_path},
                {"method", config.method == config::Method::kFull ? "full" : "lora"}};
  facts["dtype"] = config.dtype ? Json(dtype_name(*config.dtype)) : Json(nullptr);
  facts["bf16"] = config.bf16;
  facts["fp16"] = config.fp16;
  facts["tf32"] = config.tf32;
  facts["seconds"] = seconds ? Json(*seconds) : Json(nullptr);
  return facts;
}

}  // namespace

void write_run_report(const config::RunConfig& config, const plan::Comparison& comparison, Json memory,
                      std::optional<double> seconds) {
  const std::filesystem::path folder = config.output_dir;
  memory["run"] = run_facts(config, seconds);
  write_file_atomically(folder / "memory.json", format_json(memory));
  page::write_timelines(folder, comparison.plan.timeline,
                        comparison.measured ? &comparison.measured->timeline : nullptr);
  if (seconds) page::write_report(folder, folder / "report.html");
}

void write_plan_page(const config::RunConfig& config, const plan::Plan& plan, Json memory,
                     const std::filesystem::path& out) {
  page::RunRecord record;
  record.name = std::filesystem::path(config.model_name_or_path).filename().string();
  record.config = config::to_yaml(config);
  record.memory = std::move(memory);
  record.memory["run"] = run_facts(config, std::nullopt);
  record.memory["run"]["kind"] = "plan";
  if (!plan.timeline.blocks.empty()) record.predicted = plan.timeline;
  write_file_atomically(out, page::report_page(record));
}

}  // namespace fathom::app
