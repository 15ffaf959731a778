// The program's own files, found from the path of the running program.
#include "app/installation.h"

#include "base/error.h"

namespace fathom::app {

namespace fs = std::filesystem;

fs::path program_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

fs::path library_folder() { return program_folder() / "lib"; }

fs::path gpus_file() {
  const fs::path beside = program_folder() / "configs" / "gpus.yaml";
  const fs::path source = fs::path(FATHOM_SOURCE_DIR) / "configs" / "gpus.yaml";
  const fs::path copy = library_folder() / "gpus.yaml";
  for (const fs::path& path : {beside, source, copy}) {
    if (fs::exists(path)) return path;
  }
  throw Error("the list of GPUs is missing: neither " + beside.string() + " nor " + copy.string() + " is there",
              "copy configs/gpus.yaml of fathom to one of them");
}

}  // namespace fathom::app
