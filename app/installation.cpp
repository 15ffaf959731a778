// The program's own files, found from the path of the running program.
#include "app/installation.h"

#include <algorithm>

#include "base/error.h"
#include "plan/calibration.h"

namespace fathom::app {

namespace fs = std::filesystem;

fs::path program_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

fs::path library_folder() { return program_folder() / "lib"; }

fs::path cuda_kernels_file() { return library_folder() / "libfathom_cuda_kernels.so"; }

namespace {

// A file or folder of configs/; empty: it is nowhere.
fs::path find_config(const std::string& name) {
  for (const fs::path& folder :
       {program_folder() / "configs", fs::path(FATHOM_SOURCE_DIR) / "configs", library_folder()}) {
    if (fs::exists(folder / name)) return folder / name;
  }
  return {};
}

fs::path config_path(const std::string& name, const std::string& what) {
  fs::path path = find_config(name);
  if (!path.empty()) return path;
  throw Error(what + " is missing: neither " + (program_folder() / "configs" / name).string() + " nor " +
                  (library_folder() / name).string() + " is there",
              "copy configs/" + name + " of fathom to one of them");
}

}  // namespace

fs::path gpus_file() { return config_path("gpus.yaml", "the list of GPUs"); }

fs::path operator_times_file(const std::string& device) {
  return find_config(plan::calibration_file("gpu-times", device));
}

fs::path models_folder() { return config_path("models", "the folder of known models"); }

std::vector<std::string> known_models() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(models_folder())) {
    if (fs::exists(entry.path() / "config.json")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace fathom::app
