// The generator of random runs knows every key, and draws the same run for the same
// numbers.
#include "tests/random/draw.h"

#include <gtest/gtest.h>

#include <set>

#include "config/keys.h"

namespace fathom::random {
namespace {

TEST(Draw, IsTheSameForTheSameNumbers) {
  for (uint64_t number = 0; number < 20; ++number) {
    EXPECT_EQ(draw(1, number, {}), draw(1, number, {}));
    EXPECT_NE(draw(1, number, {}), draw(2, number, {}));
  }
}

TEST(Draw, GivesEveryKeyThatThereIs) {
  std::set<std::string> given;
  for (uint64_t number = 0; number < 2000; ++number) {
    for (const auto& [key, value] : draw(1, number, {"H100"}).keys) given.insert(key);
  }
  for (const config::Key& key : config::keys()) EXPECT_TRUE(given.contains(std::string(key.name))) << key.name;
}

TEST(Draw, ComesBackFromJson) {
  for (uint64_t number = 0; number < 20; ++number) {
    const RandomRun run = draw(1, number, {"H100"});
    EXPECT_EQ(run_from_json(Json::parse(to_json(run).dump())), run);
  }
}

}  // namespace
}  // namespace fathom::random
