// `export --format gguf` as a user calls it: the shipped model and an adapter of it as files, and options that do not
// fit.
#include <gmock/gmock.h>

#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kModel = FATHOM_SOURCE_DIR "/data/model";

class Gguf : public ProgramTest {
 protected:
  std::string start_of(const std::string& name) const { return read_file(folder_ / name).substr(0, 4); }
};

TEST_F(Gguf, HoldsTheShippedModelInEveryType) {
  uintmax_t last = UINTMAX_MAX;
  for (const char* type : {"f32", "bf16", "q8_0", "q4_0"}) {
    const std::string file = std::string(type) + ".gguf";
    const Outcome made = run("export " + kModel + " --format gguf --outtype " + type + " --out " + file);
    ASSERT_EQ(made.status, 0) << made.errors;
    EXPECT_THAT(made.output, AllOf(HasSubstr(file + ": the model of"), HasSubstr(std::string(" as GGUF, ") + type)));
    EXPECT_EQ(start_of(file), "GGUF");
    const uintmax_t size = std::filesystem::file_size(folder_ / file);
    EXPECT_LT(size, last) << type;
    last = size;
  }
  EXPECT_THAT(run("export " + kModel + " --format gguf --out again.gguf").output, HasSubstr("as GGUF, bf16"))
      << "as it is stored";
}

TEST_F(Gguf, HoldsATrainedAdapter) {
  const std::string data = FATHOM_SOURCE_DIR "/data/";
  write("run.yaml", "model_name_or_path: " + kModel + "\ntrain_file: " + data +
                        "train.jsonl\noutput_dir: out\nmethod: lora\nlora_r: 4\nmax_steps: 1\nmax_length: 32\n"
                        "save_strategy: no\nper_device_train_batch_size: 2\ndtype: float32\n");
  const Outcome trained = run("train run.yaml");
  ASSERT_EQ(trained.status, 0) << trained.errors;
  const Outcome adapter = run("export out --format gguf --out adapter.gguf");
  ASSERT_EQ(adapter.status, 0) << adapter.errors;
  EXPECT_THAT(adapter.output, HasSubstr("the adapter of out as GGUF, f32"));
  const Outcome merged = run("export out --merge --format gguf --outtype q8_0 --out merged.gguf");
  ASSERT_EQ(merged.status, 0) << merged.errors;
  EXPECT_THAT(merged.output, HasSubstr(" as GGUF, q8_0"));
  EXPECT_EQ(start_of("adapter.gguf") + start_of("merged.gguf"), "GGUFGGUF");
}

TEST_F(Gguf, RefusesOptionsThatDoNotFit) {
  const Outcome alone = run("export " + kModel + " --outtype q8_0 --out model");
  EXPECT_EQ(alone.status, 2);
  EXPECT_THAT(alone.errors, HasSubstr("--outtype is used only with --format gguf"));
  EXPECT_EQ(run("export " + kModel + " --format gguf --outtype q4_k_m --out model.gguf").status, 2);
  const Outcome folder = run("export " + kModel + " --format gguf --out model");
  EXPECT_EQ(folder.status, 2);
  EXPECT_THAT(folder.errors, HasSubstr("does not end in .gguf"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "model"));
}

}  // namespace
}  // namespace fathom
