// Prepares a run's output folder.
#include "app/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
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

// With the run in this folder: it goes on from a checkpoint, and begins anew where that loses no weights.
std::string what_auto_would_do(const std::filesystem::path& folder) {
  bool checkpoint = false, weights = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    checkpoint = checkpoint || entry.path().filename().string().starts_with("checkpoint-");
    weights = weights || entry.path().extension() == ".safetensors" || checkpoint::is_set_aside(entry.path());
  }
  if (checkpoint) return "set resume_from_checkpoint: auto to continue it, ";
  return weights ? "" : "it has no checkpoint: set resume_from_checkpoint: auto to begin it anew there, ";
}

// A lock on the folder itself: no file is left behind, and the kernel lets go of it when the process ends.
Descriptor lock(const std::filesystem::path& folder) {
  Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.is_open() && ::flock(opened.get(), LOCK_EX | LOCK_NB) == 0) return opened;
  if (errno == EWOULDBLOCK) {
    throw UsageError("another run is writing into " + folder.string(),
                     "wait until it has ended, or choose another output_dir");
  }
  log_warning(folder.string() + " cannot be locked (" + std::strerror(errno) +
              "): start no other run in it before this one has ended");
  return opened;
}

void refuse_taken(const config::RunConfig& config, bool resumes, bool phantom) {
  const std::filesystem::path folder = config.output_dir;
  std::error_code absent;
  if (std::filesystem::equivalent(folder, config.model_name_or_path, absent)) {
    throw UsageError("output_dir is the folder of the model itself, " + folder.string(), "choose another output_dir");
  }
  if (phantom && holds_a_run(folder) && !weights::is_phantom(folder)) {
    throw UsageError(folder.string() + " holds a real run", "choose another output_dir for --phantom-gpu");
  }
  if (!resumes && holds_a_run(folder)) {
    throw UsageError(folder.string() + " already holds a run",
                     what_auto_would_do(folder) + "choose another output_dir, or remove the folder");
  }
}

}  // namespace

void refuse_taken_folder(const config::RunConfig& config, bool phantom) {
  // A checkpoint may be of this folder: that is known once it has been opened.
  refuse_taken(config, /*resumes=*/!config.resume_from_checkpoint.empty(), phantom);
}

Descriptor prepare_run_folder(const config::RunConfig& config, bool resumes, bool phantom) {
  const std::filesystem::path folder = config.output_dir;
  create_folders(folder, "choose another output_dir");
  Descriptor held = lock(folder);
  refuse_taken(config, resumes, phantom);
  remove_unfinished_writes(folder);
  if (phantom)
    write_file_atomically(folder / weights::kPhantomMark,
                          "Played on a phantom GPU: no weight in this folder is real.\n");
  write_file_atomically(folder / "config.yaml", config::to_yaml(config));
  return held;
}

}  // namespace fathom::app
