// `cmake --install`: the program below a prefix, which is moved afterwards, with LibTorch as pip would put it there.
#include <gmock/gmock.h>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class InstalledProgram : public ProgramTest {
 protected:
  const std::string program_ = "prefix/bin/fathom";

  void SetUp() override {
    ProgramTest::SetUp();
    const Outcome installed = run("--install " FATHOM_BINARY_DIR " --prefix first", "", FATHOM_CMAKE);
    ASSERT_EQ(installed.status, 0) << installed.errors;
    fs::rename(folder_ / "first", folder_ / "prefix");
  }
  void put_torch() {
    const fs::path packages = folder_ / "prefix" / "lib" / "python3.11" / "site-packages";
    fs::create_directories(packages);
    fs::create_directory_symlink(FATHOM_TORCH_DIR, packages / "torch");
  }
};

TEST_F(InstalledProgram, RunsWithTheTorchBesideIt) {
  put_torch();
  // Without a home, and nothing on the path but what a base system has.
  const Outcome outcome = run("estimate llama-3.2-1b --gpu H100 --json", "env -i PATH=/usr/bin:/bin ", program_);
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_GT(parse_json(outcome.output, "stdout")["reserved"]["dry_run"], 0);
}

TEST_F(InstalledProgram, HasAnExampleThatTrains) {
  put_torch();
  // Whoever may not change what is installed may change the copy.
  const auto change_example = [&](fs::perm_options change) {
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "prefix/share/fathom/example")) {
      fs::permissions(entry.path(), fs::perms::owner_write, change);
    }
  };
  change_example(fs::perm_options::remove);
  const Outcome made = run("example new", "", program_);
  EXPECT_THAT(made.output, HasSubstr("fathom train configs/quickstart.yaml")) << made.errors;
  change_example(fs::perm_options::add);
  EXPECT_EQ(run("example new", "", program_).status, 2) << "it is there already";
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "new")) {
    EXPECT_NE(entry.status().permissions() & fs::perms::owner_write, fs::perms::none) << entry.path();
  }
  const Outcome trained =
      run("-c 'cd new && ../prefix/bin/fathom train configs/quickstart.yaml max_steps=2 eval_on_start=false"
          " eval_strategy=no save_strategy=no'",
          "", "/bin/sh");
  EXPECT_EQ(trained.status, 0) << trained.errors;
  EXPECT_TRUE(fs::exists(folder_ / "new/runs/quickstart/model.safetensors"));
}

TEST_F(InstalledProgram, PlaysSeveralRanksOnPhantomGpus) {
  put_torch();
  const std::string source = FATHOM_SOURCE_DIR;
  const std::string keys = "train " + source + "/data/model train_file=" + source +
                           "/data/train.jsonl max_steps=2 save_strategy=no max_length=16 strategy=ddp"
                           " per_device_train_batch_size=2 num_processes=2 --phantom-gpu H100 output_dir=";
  const Outcome installed = run(keys + "o", "", program_);
  ASSERT_EQ(installed.status, 0) << installed.errors;
  EXPECT_THAT(installed.output, AllOf(HasSubstr("rank 1: peak of live bytes"), HasSubstr("equal to the byte")));
}

// Whoever builds `fathom`, as scripts/quickstart does, has what is installed.
TEST_F(InstalledProgram, IsWholeInABuildOfOneTarget) {
  EXPECT_THAT(read_file(fs::path(FATHOM_SOURCE_DIR) / "scripts/quickstart"), HasSubstr(" --target fathom\n"));
  const Outcome inputs = run("-C " FATHOM_BINARY_DIR " -t inputs fathom", "", "/usr/bin/ninja");
  ASSERT_EQ(inputs.status, 0) << inputs.errors;
  int libraries = 0;
  for (const auto& file : fs::directory_iterator(folder_ / "prefix/lib/fathom")) {
    const std::string name = file.path().stem().string();
    if (!name.starts_with("libfathom_")) continue;
    const std::string target = name.substr(3);  // a library of CMake's, or made by a command
    EXPECT_THAT(inputs.output, AnyOf(HasSubstr("lib/" + name + ".so\n"), HasSubstr("/" + target + "\n"))) << name;
    ++libraries;
  }
  EXPECT_GE(libraries, 3);
  EXPECT_THAT(inputs.output, HasSubstr("/fathom_phantom_libraries\n"));
}

// A build of other targets: what is missing is told before anything is copied.
TEST_F(InstalledProgram, IsNeverInstalledByHalves) {
  std::string script = read_file(fs::path(FATHOM_BINARY_DIR) / "app/cmake_install.cmake");
  const std::string there = "libfathom_nccl.so", gone = "libfathom_gone.so";
  for (size_t at = 0; (at = script.find(there, at)) != std::string::npos;) script.replace(at, there.size(), gone);
  write("half.cmake", script);
  const Outcome outcome = run("-DCMAKE_INSTALL_PREFIX=half -P half.cmake", "", FATHOM_CMAKE);
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("nothing is installed"), HasSubstr(gone), HasSubstr("--target fathom")));
  EXPECT_FALSE(fs::exists(folder_ / "half"));
}

TEST_F(InstalledProgram, KnowsNothingOfTheFolderItWasBuiltIn) {
  write("bin/python3", "#!/bin/sh\nexit 1\n");
  fs::permissions(folder_ / "bin/python3", fs::perms::owner_all);
  const Outcome outcome = run("estimate llama-3.2-1b --json", "PATH=\"$PWD/bin:$PATH\" ", program_);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("LibTorch 2.11 is not on this machine: python3 has no torch"),
                                    ::testing::Not(HasSubstr(FATHOM_TORCH_DIR))));
  fs::remove(folder_ / "prefix" / "lib" / "fathom" / "gpus.yaml");
  EXPECT_THAT(run("list gpus", "", program_).errors, HasSubstr("prefix/lib/fathom/gpus.yaml"));
}

TEST_F(InstalledProgram, HasItsWordsForShellsAndMan) {
  const std::string bash = (folder_ / "prefix/share/bash-completion/completions/fathom").string();
  const Outcome completed =
      run("-c 'source " + bash +
              "; complete_it() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _fathom; echo \"${COMPREPLY[@]}\"; };"
              " complete_it fathom est; complete_it fathom phantom --ste; complete_it fathom list \"\"; complete_it "
              "fathom train a.yaml learning_r;"
              " complete_it fathom eval --activations \"\"'",
          "", "/bin/bash");
  EXPECT_EQ(completed.output, "estimate\n--steps\ngpus models\nlearning_rate=\nnone int8\n") << completed.errors;
  EXPECT_THAT(read_file(folder_ / "prefix/share/man/man1/fathom.1"),
              AllOf(HasSubstr(".SS fathom train CONFIG"), HasSubstr(".B \\-\\-gpu \\fINAME\\fR")));
  EXPECT_THAT(read_file(folder_ / "prefix/share/fish/vendor_completions.d/fathom.fish"),
              HasSubstr("complete -c fathom -n '__fish_seen_subcommand_from phantom' -l steps -r"));
  EXPECT_THAT(read_file(folder_ / "prefix/share/zsh/site-functions/_fathom"), HasSubstr("'--steps["));
}

}  // namespace
}  // namespace fathom
