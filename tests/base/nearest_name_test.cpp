// What is suggested for names as people type them.
#include "base/nearest_name.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(NearestName, IsFoundWhateverTheSeparatorsAndTheCase) {
  const std::vector<std::string> gpus = {"A100-80GB", "H100", "RTX-3090", "RTX-4090", "RTX-4090-D", "V100-16GB"};
  EXPECT_EQ(nearest_name("RTX4090", gpus), "RTX-4090");
  EXPECT_EQ(nearest_name("rtx 4090", gpus), "RTX-4090");
  EXPECT_EQ(nearest_name("4090", gpus), "RTX-4090") << "the shortest that ends so";
  EXPECT_EQ(nearest_name("A100-80", gpus), "A100-80GB");
  EXPECT_EQ(nearest_name("llama3-8b", {"llama-2-7b", "llama-3-8b", "llama-3.1-8b"}), "llama-3-8b");
  EXPECT_EQ(nearest_name("learning_rat", {"logging_steps", "learning_rate"}), "learning_rate");
  EXPECT_EQ(did_you_mean("h1000", gpus), "did you mean H100?");
}

TEST(NearestName, NamesThatGoOnAreToldTogether) {
  const std::vector<std::string> gpus = {"A10", "A100-40GB", "A100-80GB", "H100", "H100-PCIe", "RTX-4090"};
  EXPECT_EQ(did_you_mean("a100", gpus), "did you mean A100-40GB or A100-80GB?");
  EXPECT_EQ(did_you_mean("H10", gpus), "did you mean H100 or H100-PCIe?");
  EXPECT_EQ(did_you_mean("4090", gpus), "did you mean RTX-4090?");
  EXPECT_EQ(did_you_mean("h100", gpus), "did you mean H100?");
}

TEST(NearestName, OfNothingNearIsNothing) {
  EXPECT_EQ(nearest_name("M3", {"L4"}), "") << "of two letters two are others";
  EXPECT_EQ(nearest_name("Voodoo2", {"H100", "RTX-4090"}), "");
  EXPECT_EQ(nearest_name("", {"H100"}), "");
  EXPECT_EQ(nearest_name("--", {"H100"}), "");
  EXPECT_EQ(nearest_name("H100", {}), "");
  EXPECT_EQ(nearest_name(std::string(1000000, 'h'), {std::string(1000000, 'h')}), "") << "it is no name";
  EXPECT_EQ(did_you_mean("Voodoo2", {"H100"}), "");
}

TEST(PlainName, LeavesOutWhatPeopleWriteOtherwise) {
  EXPECT_EQ(plain_name("RTX-4070-Ti-SUPER"), plain_name("rtx4070 TiSuper"));
  EXPECT_EQ(plain_name("Llama3.1-8B"), "llama 3.1 8 b");
  EXPECT_EQ(plain_name("llama-3.1-8b"), "llama 3.1 8 b");
  EXPECT_EQ(plain_name("mistral_7b_v0.3."), "mistral 7 bv 0.3");
  EXPECT_NE(plain_name("qwen2-57b"), plain_name("qwen2.5-7b"));
  EXPECT_NE(plain_name("llama-3-18b"), plain_name("llama-31-8b"));
  EXPECT_EQ(plain_name("3-.5"), "3 5");
  EXPECT_EQ(plain_name("--é"), "");
}

}  // namespace
}  // namespace fathom
