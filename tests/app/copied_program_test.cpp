// The program and its lib/, copied to where nothing of the build is: with LibTorch by FATHOM_TORCH or of python3.
#include <gmock/gmock.h>

#include <algorithm>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CopiedProgram : public ProgramTest {
 protected:
  // The paths of the build, which are strings in the program, are overwritten: as if this were another machine.
  void SetUp() override {
    ProgramTest::SetUp();
    const fs::path built = FATHOM_PROGRAM;
    fs::copy(built.parent_path() / "lib", folder_ / "lib", fs::copy_options::recursive);
    std::string program = read_file(built);
    for (const std::string& path : {std::string(FATHOM_TORCH_DIR), std::string(FATHOM_SOURCE_DIR)}) {
      std::string::iterator at = program.begin();
      while ((at = std::search(at, program.end(), path.begin(), path.end())) != program.end())
        at = std::fill_n(at, path.size(), 'x');
    }
    write("fathom", program);
    fs::permissions(folder_ / "fathom", fs::perms::owner_all);
    write("model/config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 96,
      "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
      "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "dtype": "float32"})");
  }
  Outcome estimate(const std::string& environment, const std::string& options = "") {
    return run("estimate model random_init=true max_length=16 --json " + options, environment,
               (folder_ / "fathom").string());
  }
};

TEST_F(CopiedProgram, RunsWithTheLibTorchThatItIsTold) {
  const Outcome outcome = estimate("FATHOM_TORCH='" FATHOM_TORCH_DIR "' ");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_GT(parse_json(outcome.output, "stdout")["peak"]["dry_run"], 0);
}

TEST_F(CopiedProgram, RunsWithTheLibTorchOfPython) {
  write("bin/python3", "#!/bin/sh\necho '" FATHOM_TORCH_DIR "/__init__.py'\n");
  fs::permissions(folder_ / "bin/python3", fs::perms::owner_all);
  const Outcome outcome = estimate("PATH=\"$PWD/bin:$PATH\" ");
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
}

// Python looks for modules where it is started; that may be anybody's folder.
TEST_F(CopiedProgram, DoesNotTakeLibTorchFromTheWorkingDirectory) {
  write("torch/__init__.py", "");
  write("torch/version.py", "__version__ = '2.11.0'\n");
  write("torch/lib/libtorch_cpu.so", "planted");
  const Outcome outcome = estimate("PATH=/usr/local/bin:/usr/bin:/bin ");
  EXPECT_THAT(outcome.errors, ::testing::Not(HasSubstr((folder_ / "torch").string())));
}

TEST_F(CopiedProgram, SaysWhatWasTriedWithoutLibTorch) {
  write("bin/python3", "#!/bin/sh\nexit 1\n");
  fs::permissions(folder_ / "bin/python3", fs::perms::owner_all);
  const Outcome outcome = estimate("PATH=\"$PWD/bin:$PATH\" ");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("LibTorch 2.11 is not on this machine: "));
  EXPECT_THAT(outcome.errors, HasSubstr("python3 has no torch; install it"));
}

TEST_F(CopiedProgram, PlansForAGpuThatIsNotThere) {
  const Outcome outcome = estimate("FATHOM_TORCH='" FATHOM_TORCH_DIR "' ", "--gpu H100");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_GT(parse_json(outcome.output, "stdout")["reserved"]["dry_run"], 0);
}

TEST_F(CopiedProgram, WithoutItsLibrariesItSaysSo) {
  fs::remove(folder_ / "lib" / "libfathom_engine.so");
  const Outcome outcome = estimate("FATHOM_TORCH='" FATHOM_TORCH_DIR "' ");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("lib/ must lie beside the program"));
}

}  // namespace
}  // namespace fathom
