// Writes the files from which `fathom report` rebuilds the page.
#include "app/run/run_report.h"

#include "app/installation.h"
#include "app/machine.h"
#include "base/file.h"
#include "base/json_value.h"
#include "base/writable.h"
#include "config/load.h"
#include "page/page.h"
#include "page/run_record.h"
#include "schedule/inputs.h"

namespace fathom::app {
namespace {

Json run_facts(const arch::Run& run, const std::string& command_line) {
  const config::RunConfig& config = run.config;
  const std::filesystem::path model = config.model_name_or_path;
  Json facts = {{"model", model.parent_path() == models_folder() ? model.filename().string() : model.string()},
                {"method", config.method == config::Method::kFull ? "full" : "lora"}};
  facts["dtype"] = dtype_name(run.precision.stored);
  facts["bf16"] = config.bf16;
  facts["fp16"] = config.fp16;
  facts["tf32"] = config.tf32;
  facts["seconds"] = nullptr;
  facts["command"] = command_line;
  facts["version"] = version();
  facts.update(facts_of_now());
  return facts;
}

}  // namespace

void write_run_report(const arch::Run& run, const std::string& command_line, const plan::Comparison& comparison,
                      Json memory, const std::optional<RunEnd>& end) {
  const std::filesystem::path folder = run.config.output_dir;
  memory["run"] = run_facts(run, command_line);
  if (end) {
    memory["run"]["seconds"] = end->seconds;
    memory["run"]["kept_step"] = end->kept_step ? Json(*end->kept_step) : Json(nullptr);
    if (!end->failure.empty()) memory["run"]["failure"] = end->failure;
  }
  write_file_atomically(folder / "memory.json", format_json(memory));
  page::write_timelines(folder, comparison.plan.timeline,
                        comparison.measured ? &comparison.measured->timeline : nullptr);
  const std::filesystem::path page = folder / "report.html";
  if (!end) require_writable(page);
  if (end) page::write_report(folder, page);
}

EarlierReport::EarlierReport(const std::filesystem::path& folder) : folder_(folder) {
  if (folder.empty()) return;
  for (const char* name : {"memory.json", "timeline.json", "report.html"}) {
    if (!std::filesystem::is_regular_file(folder / name)) {
      files_.clear();
      return;
    }
    files_[name] = read_file(folder / name);
  }
}

void EarlierReport::put_back() const {
  for (const auto& [name, content] : files_) write_file_atomically(folder_ / name, content);
}

void write_plan_page(const std::filesystem::path& file, const arch::Run& run, const std::string& command_line,
                     const plan::Plan& plan, Json memory) {
  page::RunRecord record;
  record.name = std::filesystem::path(run.config.model_name_or_path).filename().string();
  record.config = config::to_yaml(run.config);
  record.memory = std::move(memory);
  record.memory["run"] = run_facts(run, command_line);
  record.memory["run"]["kind"] = "plan";
  if (!plan.timeline.blocks.empty()) record.predicted = plan.timeline;
  write_file_atomically(file, page::report_page(record));
}

}  // namespace fathom::app
