// What is told of a config key by key.
#include "config/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "config/to_yaml.h"

namespace fathom::config {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

RunConfig some_run() {
  RunConfig run;
  run.model_name_or_path = "data: model #1";
  run.train_file = {"a.jsonl", "b, c.jsonl"};
  run.output_dir = "out";
  run.method = Method::kLora;
  run.target_modules = {"q_proj", "true"};
  run.learning_rate = 1e-5;
  run.dtype = DType::kBF16;
  return run;
}

TEST(Settings, HaveWhatHasAValueAndAMeaning) {
  const Settings settings = settings_of(some_run());
  EXPECT_THAT(settings, Contains(Pair("learning_rate", "1.0e-05")));
  EXPECT_THAT(settings, Contains(Pair("model_name_or_path", "\"data: model #1\"")));
  RunConfig full = some_run();
  full.method = Method::kFull;
  EXPECT_THAT(settings_of(full), Not(Contains(::testing::Key("lora_r")))) << "it means nothing there";
  EXPECT_THAT(settings_of(full), Not(Contains(::testing::Key("validation_file")))) << "it has no value";
}

TEST(Settings, MakeTheSameRunAgain) {
  const RunConfig run = some_run();
  EXPECT_EQ(config_of(settings_of(run), "settings"), run);
  EXPECT_EQ(settings_in(to_yaml(run)), settings_of(run));
}

TEST(Settings, TakeTheirPlaceInARun) {
  RunConfig run = some_run();
  take({{"learning_rate", "0.5"}, {"seed", "3"}}, "settings", run);
  EXPECT_EQ(run.learning_rate, 0.5);
  EXPECT_EQ(run.seed, 3);
  EXPECT_EQ(run.output_dir, "out");
}

TEST(Settings, TellAllThatCannotBeTaken) {
  try {
    config_of({{"learning_rate", "fast"}, {"seed", "[1, 2]"}, {"sead", "1"}, {"output_dir", "[1,"}}, "the question");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the question: learning_rate: expected"));
    EXPECT_THAT(error.what(), HasSubstr("the question: seed: expected"));
    EXPECT_THAT(error.what(), HasSubstr("the question: output_dir: '[1,' is not a value"));
    EXPECT_THAT(error.what(), HasSubstr("the question: sead: no key of a run has this name"));
  }
}

TEST(Settings, DifferByKey) {
  RunConfig other = some_run();
  EXPECT_TRUE(differences(settings_of(some_run()), settings_of(other)).empty());
  other.learning_rate = 2e-5;
  other.validation_file = {"v.jsonl"};
  other.seed = RunConfig().seed + 1;
  Settings without = settings_of(some_run());
  without.erase("seed");  // of a version that did not have it
  EXPECT_EQ(in_words(differences(without, settings_of(other)), "there"),
            "learning_rate: 1.0e-05 (there 2.0e-05), seed: " + std::to_string(RunConfig().seed) + " (there " +
                std::to_string(other.seed) + "), validation_file: unset (there v.jsonl)");
}

}  // namespace
}  // namespace fathom::config
