// The generator of masks goes on where it was saved, and takes no state that leads outside of its words.
#include "train/random_state.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::train {
namespace {

TEST(RandomState, GoesOnWhereItWasSavedAfterAnyNumberOfDraws) {
  for (const int64_t drawn : {0, 1, 17, 311, 312, 313, 623, 624, 625, 1247, 1248, 2000}) {
    at::manual_seed(11);
    if (drawn > 0) at::rand({drawn});
    const Json saved = parse_json(random_state(at::kCPU).dump(), "state");
    const at::Tensor expected = at::rand({1500});
    at::manual_seed(12);
    restore_random_state(at::kCPU, saved);
    EXPECT_TRUE(at::rand({1500}).equal(expected)) << "after " << drawn;
  }
}

TEST(RandomState, RefusesPlacesOutsideOfItsWords) {
  at::manual_seed(11);
  at::rand({100});
  const Json sound = random_state(at::kCPU);
  const auto refused = [&](const Json& changes) {
    Json state = sound;
    state.update(changes);
    try {
      restore_random_state(at::kCPU, state);
      return false;
    } catch (const Error& error) {
      return std::string(error.what()).find("random state") != std::string::npos;
    }
  };
  EXPECT_FALSE(refused({{"seed", 3}}));
  EXPECT_TRUE(refused({{"next", 4000000000u}}));
  EXPECT_TRUE(refused({{"left", 0}}));
  EXPECT_TRUE(refused({{"left", -5}}));
  EXPECT_TRUE(refused({{"left", 2000000000}}));
  EXPECT_TRUE(refused({{"left", 625}}));
  EXPECT_TRUE(refused({{"left", 624}, {"next", 624}})) << "reads one word behind the last";
  EXPECT_TRUE(refused({{"seeded", false}}));
  EXPECT_TRUE(refused({{"words", {1, 2, 3}}}));
  EXPECT_TRUE(refused({{"kind", "counter"}}));
}

}  // namespace
}  // namespace fathom::train
