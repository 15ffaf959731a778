// What processes that tell of themselves hold at once.
#include "launch/facts.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace fathom::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Of GPU 0.
Share most(const std::string& text) { return Facts::from_text(text, "facts").devices[0]; }

constexpr const char* kShell = "begins 1 0 0 0 sh run.sh\n";
// Of a shell that runs one after the other: it waits for any, and has no other.
constexpr const char* kFirst = "started 2 1 0\nbegins 2 1 0 1 python a.py\nhas 2 0 50\nwaited-any 1 2 0\n";
constexpr const char* kSecond = "started 3 1 0\nbegins 3 1 0 1 python b.py\nhas 3 0 40\nwaited-any 1 3 0\n";

TEST(Facts, OneAfterTheOtherHasWhatTheLargerHas) {
  EXPECT_EQ(most(std::string(kShell) + kFirst + kSecond), (Share{50, 1}));
  EXPECT_EQ(most(std::string(kShell) + kFirst + "started 2 1 0\nhas 2 0 40\n"), (Share{50, 1})) << "a number anew";
}

TEST(Facts, InTheBackgroundHasWhatBothHaveHoweverQuicklyTheyPlay) {
  const std::string starts =
      std::string(kShell) + "forks 1 1 0\nforked 2 1 1\nbegins 2 1 1 1 python a.py\nhas 2 0 50\n";
  const std::string second = "started 3 1 0\nbegins 3 1 0 1 python b.py\nhas 3 0 40\n";
  EXPECT_EQ(most(starts + second + "waited-any 1 2 0\nwaited-any 1 3 0\n"), (Share{90, 2}));
  EXPECT_EQ(most(starts + second + "waited-any 1 3 0\nreaped 1 2 0\n"), (Share{90, 2}));
  EXPECT_EQ(most(starts + "waited-any 1 2 0\n" + second + "waited-any 1 3 0\n"), (Share{90, 2}))
      << "the first has ended before the second began, by chance";
  EXPECT_EQ(most(starts + "reaped 1 2 0\n" + second), (Share{90, 2}));
  EXPECT_EQ(most(starts + second + "waited-any 1 3 0\nstarted 4 1 0\nhas 4 0 60\n"), (Share{110, 2}))
      << "the shell has waited for the second alone";
}

TEST(Facts, AParentHasWhatItHasWhileTheChildRuns) {
  const std::string child = "forks 1 1 0\nforked 2 1 1\nhas 2 0 50\n";
  const std::string waits = "waited 1 2 0\n";
  const std::string parent = std::string("begins 1 0 0 1 python a.py\n");
  EXPECT_EQ(most(parent + "has 1 0 30\n" + child + waits), (Share{80, 2}));
  EXPECT_EQ(most(parent + "has 1 0 30\n" + child + waits + "has 1 0 70\n"), (Share{80, 2}));
  EXPECT_EQ(most(parent + child + waits + "has 1 0 70\n"), (Share{70, 1}));
  EXPECT_EQ(most(parent + "has 1 0 70\nhas 1 0 0\n" + child + waits), (Share{70, 1})) << "it has given it back before";
  EXPECT_EQ(most(parent + child + "has 1 0 30\n" + waits), (Share{80, 2}));
  EXPECT_EQ(most(parent + child + "has 1 0 30\nreaped 1 2 0\n"), (Share{80, 2}));
  EXPECT_EQ(most(parent + "forks 1 1 0\nhas 1 0 30\nhas 1 0 0\nforked 2 1 1\nhas 2 0 50\n" + waits), (Share{80, 2}))
      << "the child has told late that it was there";
}

TEST(Facts, OfAnyThatIsWaitedForNoneIsKnownWhileOthersRun) {
  const std::string two =
      "begins 1 0 0 1 python a.py\nforks 1 1 0\nforked 2 1 1\nhas 2 0 50\nforks 1 2 0\nforked 3 1 2\n";
  const std::string third = "forks 1 3 0\nforked 4 1 3\nhas 4 0 40\n";
  EXPECT_EQ(most(two + "waited-any 1 2 0\n" + third), (Share{90, 2})) << "the other might have come first";
  EXPECT_EQ(most(two + "waited 1 2 0\n" + third), (Share{50, 1}));
  EXPECT_EQ(most(two + "waited-any 1 3 0\nwaited-any 1 2 0\n" + third), (Share{50, 1}));
  EXPECT_EQ(
      most("begins 1 0 0 1 python\nforks 1 1 0\nforked 2 1 1\nhas 2 0 50\nforks 1 2 0\nwaited-any 1 2 0\n" + third),
      (Share{90, 2}))
      << "one that has not told yet runs, too";
}

TEST(Facts, WhatAChildLeavesBehindGoesOn) {
  const std::string leaves =
      "begins 1 0 0 0 sh\nstarted 2 1 0\nbegins 2 1 0 0 setsid -f python a.py\nforks 2 1 0\n"
      "forked 3 2 1\nbegins 3 9 0 1 python a.py\nhas 3 0 50\nwaited-any 1 2 0\n";
  EXPECT_EQ(most(leaves + "started 4 1 0\nhas 4 0 40\n"), (Share{90, 2}));
}

TEST(Facts, AnotherProgramInTheSameProcessBeginsWithNothing) {
  EXPECT_EQ(most("begins 1 0 0 1 python a.py\nhas 1 0 50\nbegins 1 0 0 1 python b.py\nhas 1 0 40\n"), (Share{50, 1}));
}

TEST(Facts, CountsEachGpuByItself) {
  const auto devices =
      Facts::from_text("begins 1 0 0 0 sh\nhas 2 0 50\nhas 3 0 40\nhas 3 1 30\nhas 3 0 0\n", "facts").devices;
  EXPECT_EQ(devices.at(0), (Share{90, 2})) << "whose parent nobody knows may run with all";
  EXPECT_EQ(devices.at(1), (Share{30, 1}));
}

TEST(Facts, NamesProgramsThatAreNotFollowed) {
  const auto unfollowed = [](const std::string& text) { return Facts::from_text(text, "facts").unfollowed; };
  EXPECT_THAT(unfollowed("begins 1 0 0 1 python -I a.py\n"), ElementsAre("python -I a.py")) << "killed, or _exit";
  EXPECT_THAT(unfollowed("begins 1 0 0 1 python -I a.py\nends 1 1\n"), ElementsAre("python -I a.py"));
  EXPECT_THAT(unfollowed("begins 1 0 0 1 python -I a.py\nends 1 0\n"), ElementsAre()) << "without torch";
  EXPECT_THAT(unfollowed("begins 1 0 0 1 python a.py\nagent 1\n"), ElementsAre());
  EXPECT_THAT(unfollowed("begins 1 0 0 1 python -I a.py\nforks 1 1 0\nforked 2 1 1\nends 1 0\n"),
              ElementsAre("python -I a.py"))
      << "a child of it may have torch";
  EXPECT_THAT(unfollowed("begins 1 0 0 1 python a.py\nagent 1\nlate 1\nends 1 0\n"), ElementsAre("python a.py"))
      << "its torch was not prepared for";
  EXPECT_THAT(unfollowed("begins 1 0 0 1 python -E a.py\nbegins 1 0 0 1 python b.py\nagent 1\n"),
              ElementsAre("python -E a.py"));
  EXPECT_THAT(unfollowed("begins 1 0 0 0 ./trainer\nends 1 1\n"), ElementsAre("./trainer"));
}

TEST(Facts, TellsWhatIsCalledInVainAndWhoImportsTorch) {
  const Facts facts = Facts::from_text("begins 7 0 0 1\nagent 7\ntorch 7\nlacks 7 cudnnCreate\n", "facts");
  EXPECT_THAT(facts.lacks, ElementsAre("cudnnCreate"));
  EXPECT_THAT(facts.with_torch, ElementsAre(7));
}

TEST(Facts, RefusesAnotherForm) {
  for (const char* text : {"has 1 0\n", "has 1 zero 5\n", "likes 1 2\n", "\n", "begins one\n"}) {
    EXPECT_THROW(Facts::from_text(text, "facts"), Error) << text;
  }
}

}  // namespace
}  // namespace fathom::launch
