// Checkpoints of `train` where disks are full or read-only, and what `export` makes of a run.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "base/descriptor.h"
#include "base/hash.h"
#include "base/json.h"
#include "tests/app/run.h"
#include "weights/safetensors.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Checkpoints : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::copy(fs::path(FATHOM_SOURCE_DIR) / "data" / "model", folder_ / "model");
    std::string lines;
    for (int i = 0; i < 20; ++i) lines += R"({"text": "One more than )" + std::to_string(i) + " is near.\"}\n";
    write("data.jsonl", lines);
    write("run.yaml", R"(model_name_or_path: model
device: cpu
dtype: float32
train_file: data.jsonl
per_device_train_batch_size: 2
max_steps: 6
save_steps: 2
logging_steps: 1
output_dir: out
)");
  }

  // Runs shell commands where `disk` is a file system of its own in memory; unset where this user may not make one.
  std::optional<Outcome> run_on_a_disk(const std::string& size, const std::string& commands) {
    write("on_disk.sh", "set -e\nmkdir disk\nmount -t tmpfs -o size=" + size + " tmpfs disk || exit 77\nfathom='" +
                            FATHOM_PROGRAM + "'\n" + commands);
    const Outcome outcome = run("-rm sh on_disk.sh", "", "unshare");
    if (outcome.status == 77 || outcome.errors.find("unshare") == 0) return std::nullopt;
    return outcome;
  }

  std::vector<float> logits(const std::string& model) {
    const Outcome outcome = run("logits " + model + " --ids 1,5,9,2,7,30,4 --out logits.safetensors dtype=float32");
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    const weights::SafetensorsFile file(folder_ / "logits.safetensors");
    const auto* values = reinterpret_cast<const float*>(file.data(*file.find("logits")));
    return {values, values + file.find("logits")->bytes / 4};
  }
};

TEST_F(Checkpoints, AFolderThatAnotherRunWritesIntoIsRefusedAndLeftAsItIs) {
  ASSERT_EQ(run("train run.yaml").status, 0);
  fs::remove_all(folder_ / "out" / "checkpoint-4");
  fs::remove_all(folder_ / "out" / "checkpoint-6");
  fs::create_directory(folder_ / "out" / ".checkpoint-4.partial");  // of a save that is under way
  Descriptor other(::open((folder_ / "out").c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
  const Outcome refused = run("train run.yaml resume_from_checkpoint=auto");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("another run is writing into out"), HasSubstr("another output_dir")));
  EXPECT_TRUE(fs::exists(folder_ / "out" / ".checkpoint-4.partial"));
  EXPECT_FALSE(fs::exists(folder_ / "out" / "checkpoint-4"));

  other.close();
  EXPECT_EQ(run("train run.yaml resume_from_checkpoint=auto").status, 0);
  EXPECT_TRUE(fs::exists(folder_ / "out" / "checkpoint-6"));
}

TEST_F(Checkpoints, ADiskThatIsTooSmallIsRefusedBeforeTheFirstStep) {
  const auto outcome = run_on_a_disk("30m", "\"$fathom\" train run.yaml output_dir=disk/out\n");
  if (!outcome) GTEST_SKIP() << "this user may not mount";
  EXPECT_EQ(outcome->status, 1);
  EXPECT_THAT(outcome->errors, AllOf(HasSubstr("no room for the first checkpoint"), HasSubstr("MiB) free")));
  EXPECT_THAT(outcome->errors, Not(HasSubstr("saved")));
}

TEST_F(Checkpoints, ADiskThatFillsUpEndsTheRunAndLosesNothing) {
  ASSERT_EQ(run("train run.yaml").status, 0);
  const auto outcome = run_on_a_disk("60m",
                                     "\"$fathom\" train run.yaml output_dir=disk/out && exit 1\n"
                                     "ls -A disk/out\n"
                                     "mount -o remount,size=400m disk\n"
                                     "\"$fathom\" train run.yaml output_dir=disk/out resume_from_checkpoint=auto\n"
                                     "cp disk/out/model.safetensors .\n");
  if (!outcome) GTEST_SKIP() << "this user may not mount";
  EXPECT_EQ(outcome->status, 0) << outcome->errors;
  EXPECT_THAT(outcome->errors, AllOf(HasSubstr("warning: checkpoints and model of this run take up to"),
                                     HasSubstr("checkpoint of step 4 could not be saved: no room for checkpoint-4"),
                                     HasSubstr("resuming from disk/out/checkpoint-2")));
  EXPECT_EQ(hash_file(folder_ / "model.safetensors"), hash_file(folder_ / "out" / "model.safetensors"));
}

TEST_F(Checkpoints, AFolderThatCannotBeWrittenIsSaidAtOnce) {
  const auto outcome =
      run_on_a_disk("400m", "mount -o remount,ro disk\n\"$fathom\" train run.yaml output_dir=disk/out\n");
  if (!outcome) GTEST_SKIP() << "this user may not mount";
  EXPECT_EQ(outcome->status, 1);
  EXPECT_THAT(outcome->errors, AllOf(HasSubstr("disk/out"), HasSubstr("Read-only file system")));
}

TEST_F(Checkpoints, AMergedAdapterAnswersAsTheAdapterDoes) {
  ASSERT_EQ(run("train run.yaml output_dir=base save_strategy=no max_steps=1").status, 0);  // an FP32 base
  const Outcome trained =
      run("train run.yaml model_name_or_path=base method=lora lora_r=4 lora_alpha=6 target_modules=all-linear "
          "learning_rate=0.05");
  ASSERT_EQ(trained.status, 0) << trained.errors;
  const std::vector<float> base = logits("base"), adapted = logits("base --adapter out");

  const Outcome merged = run("export out --out merged --merge");
  ASSERT_EQ(merged.status, 0) << merged.errors;
  EXPECT_THAT(merged.output, HasSubstr("merged"));
  ASSERT_EQ(run("export out/checkpoint-4 --out adapter").status, 0);
  EXPECT_EQ(hash_file(folder_ / "adapter" / "adapter_model.safetensors"),
            hash_file(folder_ / "out" / "checkpoint-4" / "adapter_model.safetensors"));
  for (const char* name : {"config.json", "tokenizer.model"})
    EXPECT_TRUE(fs::exists(folder_ / "merged" / name)) << name;

  const std::vector<float> got = logits("merged");
  float difference = 0, change = 0, largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    difference = std::max(difference, std::abs(got[i] - adapted[i]));
    change = std::max(change, std::abs(base[i] - adapted[i]));
    largest = std::max(largest, std::abs(adapted[i]));
  }
  EXPECT_LE(difference, 1e-5 * largest);
  EXPECT_GE(change, 0.05 * largest) << "the adapter does something";

  const Outcome again = run("export out --out merged --merge");
  EXPECT_EQ(again.status, 1);
  EXPECT_THAT(again.errors, HasSubstr("merged exists"));
  EXPECT_EQ(run("export base --out whole --merge").status, 2);
}

TEST_F(Checkpoints, OfPreferencesGoWithTheReferenceOfTheirRun) {
  const std::string dpo = "train run.yaml objective=dpo train_file='" FATHOM_SOURCE_DIR "/data/preferences.jsonl' ";
  // The logs are opened when the pass over the data is about to begin, which has 480 batches.
  write("stop.sh", "'" FATHOM_PROGRAM "' " + dpo + "output_dir=stopped per_device_eval_batch_size=1 &\n" +
                       "while kill -0 $! && ! [ -e stopped/metrics.jsonl ]; do sleep 0.02; done\n"
                       "kill -TERM $!\nwait $!\n");
  const Outcome stopped = run("stop.sh", "", "sh");
  EXPECT_EQ(stopped.status, 128 + SIGTERM);
  EXPECT_THAT(stopped.errors, HasSubstr("while the reference was computed, and nothing was saved; begin anew with: "));
  EXPECT_FALSE(fs::exists(folder_ / "stopped" / "reference.logps"));
  ASSERT_EQ(run(dpo + "output_dir=stopped resume_from_checkpoint=auto").status, 0);
  ASSERT_EQ(run(dpo + "bf16=true").status, 0);

  const auto hashes = [&] {
    std::string all;
    for (const char* name : {"memory.json", "report.html", "config.yaml"}) all += hash_file(folder_ / "out" / name);
    return all;
  };
  const std::string before = hashes();
  fs::copy_file(folder_ / "stopped" / "reference.logps", folder_ / "out" / "reference.logps",
                fs::copy_options::overwrite_existing);
  const Outcome refused = run(dpo + "bf16=true max_steps=8 resume_from_checkpoint=auto");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.errors, HasSubstr("out/reference.logps, what the model gave to the data before its first step, "
                                        "is not the one of the run that saved the checkpoint"));
  EXPECT_EQ(hashes(), before);
}

}  // namespace
}  // namespace fathom
