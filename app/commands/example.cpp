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

// A file, or a folder with all that is in it, which the user may change where the installed one may not be changed.
void copy_for_user(const fs::path& from, const fs::path& to) {
  if (fs::is_directory(from)) {
    create_folders(to, "name another folder");
    for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
      copy_for_user(entry.path(), to / entry.path().filename());
    }
  } else {
    fs::copy_file(from, to);
    fs::permissions(to, fs::perms::owner_write, fs::perm_options::add);
  }
}

void copy_example(const fs::path& folder) {
  const fs::path source = example_folder();
  copy_for_user(source / "data", folder / "data");
  create_folders(folder / "configs", "name another folder");
  for (const fs::directory_entry& entry : fs::directory_iterator(source / "configs")) {
    const fs::path name = entry.path().filename();
    // Lists of GPUs and of known models are the program's.
    if (name.extension() == ".yaml" && name != "gpus.yaml") copy_for_user(entry.path(), folder / "configs" / name);
  }
}

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
  create_folders(folder_, "name another folder");
  try {
    copy_example(folder_);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
    throw;
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
