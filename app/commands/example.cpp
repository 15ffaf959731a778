// `fathom example FOLDER`: something to begin with, without a download.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "app/command.h"
#include "app/installation.h"
#include "base/error.h"
#include "base/file.h"
#include "base/output.h"

namespace fathom::app {
namespace {

namespace fs = std::filesystem;

class Example final : public Command {
 public:
  Example() : Command("example", "A new folder with a small model, its data and configs, to begin with") {}
  std::vector<Option> options() override { return {Option("FOLDER", folder_, "", "It is made").require()}; }
  void complete() override {
    if (fs::exists(folder_)) throw UsageError(folder_.string() + " is there already", "name a new folder");
  }
  int run() const override;

 private:
  fs::path folder_;
};

int Example::run() const {
  const fs::path source = example_folder();
  create_folders(folder_, "name another folder");
  for (const char* part : {"configs", "data"}) {
    create_folders(folder_ / part, "name another folder");
    for (const fs::directory_entry& entry : fs::directory_iterator(source / part)) {
      const fs::path name = entry.path().filename();
      // Lists of GPUs and of known models are the program's.
      if (part == std::string("configs") && (name.extension() != ".yaml" || name == "gpus.yaml")) continue;
      fs::copy(entry.path(), folder_ / part / name, fs::copy_options::recursive);
    }
  }
  print("cd " + folder_.string() +
        "\nfathom estimate configs/quickstart.yaml      what it will take\n"
        "fathom train configs/quickstart.yaml         the run, a minute or two\n"
        "fathom generate runs/quickstart --prompt 'How much memory do 7 billion parameters need in FP16?'\n");
  return 0;
}

}  // namespace

std::unique_ptr<Command> make_example() { return std::make_unique<Example>(); }

}  // namespace fathom::app
