// The page of keys is the one that the table makes, and it leaves out nothing.
#include "config/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "config/keys.h"

namespace fathom::config {
namespace {

TEST(Describe, ThePageIsNotStale) {
  EXPECT_EQ(read_file(FATHOM_SOURCE_DIR "/docs/config.md"), keys_page())
      << "docs/config.md is stale; mend it: build/fathom --help-config > docs/config.md";
}

TEST(Describe, TheHelpHasALineForEveryKey) {
  const std::string help = keys_help();
  for (const Key& key : keys()) EXPECT_THAT(help, ::testing::HasSubstr("\n  " + std::string(key.name) + " "));
  EXPECT_THAT(help, ::testing::HasSubstr(" [5.0e-05]\n"));
}

TEST(Describe, EveryKeyHasTypeMeaningAndDefault) {
  for (const Key& key : keys()) {
    EXPECT_FALSE(key.type.empty()) << key.name;
    EXPECT_FALSE(key.meaning.empty()) << key.name;
    EXPECT_FALSE(key.get(RunConfig{}) == "null" && key.unset.empty()) << key.name;
    EXPECT_EQ(find_key(key.name), &key);
  }
  EXPECT_EQ(keys().size(), 88U);
}

}  // namespace
}  // namespace fathom::config
