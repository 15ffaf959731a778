// Forty random runs on the CPU and forty on phantom GPUs, the same ones at every run of a commit: each is refused with
// a reason, or takes what was planned. scripts/campaigns/random_configurations draws new ones.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/random/files.h"
#include "tests/random/judge.h"
#include "tests/seed.h"

namespace fathom::random {
namespace {

// A draw is refused with a probability of a tenth at most (scripts/campaigns/random_configurations counts many of
// them); of forty more than twelve then are once in ten thousand.
constexpr uint64_t kDraws = 40, kMostRefused = 12;

struct Draw {
  uint64_t number;
  RandomRun run;
};

// Those of a GPU beside each other, as another GPU is another server to start.
std::vector<Draw> forty(uint64_t seed, const std::vector<std::string>& gpus) {
  std::vector<Draw> draws;
  for (uint64_t number = 0; number < kDraws; ++number)
    draws.push_back({number, draw(seed, number, gpus, Reach::kNear)});
  std::stable_sort(draws.begin(), draws.end(), [](const Draw& a, const Draw& b) { return a.run.gpu < b.run.gpu; });
  return draws;
}

void play_all(uint64_t seed, const std::vector<Draw>& draws) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("fathom_random_" + std::to_string(getpid()));
  Programs programs(FATHOM_PRESTARTED);
  uint64_t refused = 0;
  for (const auto& [number, run] : draws) {
    const Judgement judgement = play(run, programs, folder);
    refused += judgement.verdict == Verdict::kRefused ? 1 : 0;
    if (judgement.verdict != Verdict::kWrong && judgement.verdict != Verdict::kLate) continue;
    ADD_FAILURE() << judgement.reason << "\nscripts/campaigns/random_configurations --seed " << seed << " --first "
                  << number << (run.gpu.empty() ? " --near --cpu 1 --phantom 0" : " --near --cpu 0 --phantom 1")
                  << " draws it again and makes it small: " << run.gpu << "\n"
                  << to_yaml(run) << run.model.dump();
  }
  EXPECT_LE(refused, kMostRefused);
  std::filesystem::remove_all(folder);
}

TEST(RandomConfigurations, TakeWhatWasPlannedOnTheCpu) {
  const uint64_t seed = fathom::testing::seed();
  play_all(seed, forty(seed, {}));
}

TEST(RandomConfigurations, TakeWhatWasPlannedOnPhantomGpus) {
  const uint64_t seed = fathom::testing::seed();
  const std::vector<Draw> draws = forty(seed, phantom_gpus());
  std::set<std::string> kinds;
  for (const Draw& each : draws) kinds.insert(each.run.gpu);
  EXPECT_GE(kinds.size(), 10);
  play_all(seed, draws);
}

}  // namespace
}  // namespace fathom::random
