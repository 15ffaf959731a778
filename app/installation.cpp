// The program's own files, found from the path of the running program.
#include "app/installation.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_value.h"
#include "plan/time/calibration.h"

namespace fathom::app {

namespace fs = std::filesystem;

fs::path program_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

namespace {

// Of an installed program, bin/fathom: lib/fathom below the same prefix.
fs::path installed_folder() { return program_folder().parent_path() / "lib" / "fathom"; }

}  // namespace

bool is_installed() {
  constexpr const char* kEngine = "libfathom_engine.so";
  return !fs::exists(program_folder() / "lib" / kEngine) && fs::exists(installed_folder() / kEngine);
}

fs::path library_folder() { return is_installed() ? installed_folder() : program_folder() / "lib"; }

fs::path cuda_kernels_file() { return library_folder() / "libfathom_cuda_kernels.so"; }

namespace {

// A file or folder of configs/; empty: it is nowhere.
fs::path find_config(const std::string& name) {
  std::vector<fs::path> folders;
  if (!is_installed()) folders = {program_folder() / "configs", fs::path(FATHOM_SOURCE_DIR) / "configs"};
  folders.push_back(library_folder());
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / name)) return folder / name;
  }
  return {};
}

fs::path config_path(const std::string& name, const std::string& what) {
  fs::path path = find_config(name);
  if (!path.empty()) return path;
  const std::string beside = is_installed() ? "" : (program_folder() / "configs" / name).string() + " or ";
  throw Error(what + " is missing: it would be " + beside + (library_folder() / name).string(),
              "copy configs/" + name + " of fathom there");
}

}  // namespace

fs::path example_folder() {
  const fs::path installed = program_folder().parent_path() / "share" / "fathom" / "example";
  fs::path folder = is_installed() ? installed : fs::path(FATHOM_SOURCE_DIR);
  if (fs::exists(folder / "configs" / "quickstart.yaml")) return folder;
  throw Error("fathom's example is missing: it would be " + folder.string(), "install fathom anew");
}

std::string version() {
  const fs::path built_from = library_folder() / "built_from.json";
  return fs::exists(built_from) ? read_json(built_from).at("version").get<std::string>() : "unknown";
}

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
