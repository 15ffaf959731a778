// Prepares a run's output folder.
#include "app/run_folder.h"

#include "base/error.h"
#include "base/file.h"
#include "config/load.h"
#include "weights/folder.h"

namespace fathom::app {
namespace {

bool holds_a_run(const std::filesystem::path& folder) {
  for (const char* name : {"config.yaml", "metrics.jsonl", "config.json", "model.safetensors",
                           "model.safetensors.index.json", "adapter_config.json", "adapter_model.safetensors"}) {
    if (std::filesystem::exists(folder / name)) return true;
  }
  return false;
}

}  // namespace

void prepare_run_folder(const config::RunConfig& config, bool resumes, bool phantom) {
  const std::filesystem::path folder = config.output_dir;
  std::error_code absent;
  if (std::filesystem::equivalent(folder, config.model_name_or_path, absent)) {
    throw UsageError("output_dir is the folder of the model itself, " + folder.string(), "choose another output_dir");
  }
  if (phantom && holds_a_run(folder) && !weights::is_phantom(folder)) {
    throw UsageError(folder.string() + " holds a real run", "choose another output_dir for --phantom-gpu");
  }
  if (!resumes && holds_a_run(folder)) {
    throw UsageError(
        folder.string() + " already holds a run",
        "set resume_from_checkpoint: auto to continue it, choose another output_dir, or remove the folder");
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error("cannot create " + folder.string() + ": " + error.message(), "choose another output_dir");
  remove_unfinished_writes(folder);
  if (phantom)
    write_file_atomically(folder / weights::kPhantomMark,
                          "Played on a phantom GPU: no weight in this folder is real.\n");
  write_file_atomically(folder / "config.yaml", config::to_yaml(config));
}

}  // namespace fathom::app
