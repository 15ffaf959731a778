// Plays scripts by `fathom phantom`, with the LibTorch of the build as their torch.
#pragma once

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom::app {

class PhantomScript : public ProgramTest {
 protected:
  static std::vector<std::string> names_in(const std::filesystem::path& place) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(place, error)) names.push_back(file.path().filename());
    return names;
  }

  // The Python beside the LibTorch that the program was built with.
  const std::filesystem::path python_ = std::filesystem::path(FATHOM_TORCH_DIR) / "../../../../bin/python";

  void SetUp() override {
    ProgramTest::SetUp();
    // Alone it would look for CUDA's real libraries, so what it needs besides is asked for.
    const Outcome torch =
        run("-c 'import sympy, typing_extensions, importlib.util as u; exit(not u.find_spec(\"torch\"))'", "",
            python_.string());
    if (torch.status != 0) GTEST_SKIP() << "no Python can import the torch of this build: " << torch.errors;
    std::filesystem::create_directory(folder_ / "tmp");
  }

  // launcher: what Python is given before the script.
  Outcome play(const std::string& script, const std::string& options = "--gpu A100-80GB",
               const std::string& launcher = "") {
    return play_whole("import torch\n" + script, options, launcher);
  }
  // The script imports torch itself.
  Outcome play_whole(const std::string& script, const std::string& options, const std::string& launcher = "") {
    write("train.py", script);
    return play_command("'" + python_.string() + "' " + launcher + " train.py", options);
  }
  // As a shell takes it; nothing of it stays behind.
  Outcome play_command(const std::string& command, const std::string& options = "--gpu A100-80GB") {
    Outcome outcome = run("phantom " + options + " -- " + command, "TMPDIR=" + folder_.string() + "/tmp ");
    for (const std::filesystem::path& place : {folder_ / "tmp", std::filesystem::path("/dev/shm")}) {
      EXPECT_THAT(names_in(place), ::testing::Not(::testing::Contains(::testing::HasSubstr("fathom-phantom"))));
    }
    for (const std::string& number : names_in("/proc")) {
      std::error_code error;  // of another user's process, or one that has ended
      EXPECT_NE(std::filesystem::read_symlink("/proc/" + number + "/cwd", error), folder_) << number << " goes on";
    }
    return outcome;
  }
  Json told(const std::string& script, const std::string& options = "", const std::string& launcher = "") {
    const Outcome outcome = play(script, "--gpu A100-80GB --json " + options, launcher);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return parse_json(outcome.output, "the answer");
  }
};

}  // namespace fathom::app
