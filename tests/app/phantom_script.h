// Plays scripts by `fathom phantom`, with the LibTorch of the build as their torch.
#pragma once

#include <gmock/gmock.h>

#include "tests/app/run.h"

namespace fathom::app {

class PhantomScript : public ProgramTest {
 protected:
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
    Outcome outcome = run("phantom " + options + " -- '" + python_.string() + "' " + launcher + " train.py",
                          "TMPDIR=" + folder_.string() + "/tmp ");
    for (const auto& file : std::filesystem::directory_iterator(folder_ / "tmp")) {
      EXPECT_THAT(file.path().filename(), ::testing::Not(::testing::HasSubstr("fathom"))) << "nothing stays behind";
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
