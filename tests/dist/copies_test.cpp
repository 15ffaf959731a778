// Copies and their shares between ranks that are threads: sums over copies, and who is named where one is gone.
#include "dist/copies.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <thread>

#include "tests/dist/together.h"

namespace fathom::dist {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Copies, AreOfNeighbours) {
  ledger::Ledger ledger;
  const std::unique_ptr<Group> group = play(4, 6);
  const Copies copies(*group, 2, ledger);
  EXPECT_EQ(copies.sharers().size(), 2);
  EXPECT_EQ(copies.sharers().rank(), 0);
  std::vector<int64_t> contributors;
  for (int64_t ranks = 0; ranks <= 6; ++ranks) contributors.push_back(copies.sharers_among(ranks));
  EXPECT_THAT(contributors, ElementsAre(0, 0, 0, 0, 0, 1, 2));
  const Copies one(*group, 6, ledger);
  EXPECT_EQ(&one.sharers(), group.get());
}

// In the order of copies: to the first, large one each adds something below its last digit.
TEST(Copies, AddUpInTheirOrder) {
  together(6, [](Group& group) {
    ledger::Ledger ledger;
    Copies copies(group, 2, ledger);
    const std::vector<double> of_copy = {16777216, 1, 1};
    const auto copy = static_cast<size_t>(group.rank() / 2);
    const at::Tensor first = at::full({5}, of_copy[copy]), second = at::full({1}, of_copy[2 - copy]);
    copies.begin_sums({first, second}, true);
    const at::Tensor third = at::full({3}, static_cast<double>(group.rank()));
    copies.begin_sums({third}, true);
    const at::Tensor waiting = at::ones({3});
    copies.begin_sums({waiting}, false);
    copies.end_sums();
    EXPECT_TRUE(at::equal(waiting, at::ones({3})));
    EXPECT_TRUE(at::equal(first, at::full({5}, 16777216.0)));
    EXPECT_TRUE(at::equal(second, at::full({1}, 16777218.0)));
    EXPECT_TRUE(at::equal(third, at::full({3}, group.rank() % 2 == 0 ? 6.0 : 9.0)));
    EXPECT_THAT(copies.sharers().gather(static_cast<double>(group.rank())),
                ElementsAre(group.rank() / 2 * 2, group.rank() / 2 * 2 + 1));
    group.meet();
  });
}

TEST(Group, WaitsLongerForFiles) {
  const auto run = [](bool fails) {
    together(
        3,
        [&](Group& group) {
          std::string heard;
          group.meet();
          try {
            if (group.is_first()) {
              std::this_thread::sleep_for(std::chrono::seconds(4));  // it writes
              if (fails) return group.tell_failure("no space left");
            }
            group.meet_after_files();
          } catch (const LostOthers& error) {
            heard = error.what();
          }
          EXPECT_EQ(heard.find("rank 0 failed: no space left") != std::string::npos, fails) << heard;
        },
        std::chrono::seconds(2));
  };
  run(false);
  run(true);
}

// Before training runs one may take long; from then on it is missed soon, in the parts of the group too.
TEST(Group, WaitsAsLongAsItIsTold) {
  together(3, [](Group& group) {
    const auto part = group.part({0, 1, 2});
    group.wait_at_most(std::chrono::seconds(1));
    group.meet();
    const auto start = std::chrono::steady_clock::now();
    if (group.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::seconds(5));
      return;
    }
    if (group.rank() == 0) {
      const at::Tensor numbers = at::zeros({3});
      const auto message = part->begin_exchange({{}, {}, {}}, {{}, {}, {{numbers, 0, 3}}});
      EXPECT_THROW(message->wait(), LostOthers);
    } else {
      EXPECT_THROW(part->meet(), LostOthers);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  });
}

// Rank 2 computes for longer than others wait for reasons, and is not taken for the one that is gone; rank 0 stays for
// it.
TEST(Group, DoesNotMissWhoComputes) {
  together(3, [](Group& group) {
    group.meet();
    if (group.rank() == 1) return;
    if (group.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(6));
    try {
      group.meet();
      ADD_FAILURE() << group.rank() << " has not noticed";
    } catch (const LostOthers& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1 of 3 does not answer"), Not(HasSubstr("rank 0 of 3")),
                                      Not(HasSubstr("rank 2 of 3"))));
    }
  });
}

TEST(Group, HearsOfOneThatFailsInPlaceOfItsText) {
  together(3, [](Group& group) {
    const auto start = std::chrono::steady_clock::now();
    try {
      group.meet();  // so that nobody hears of it while it still joins
      if (group.rank() == 1) return group.tell_failure("no space left");
      group.gather_to_first("text");
      ADD_FAILURE() << group.rank() << " has not noticed";
    } catch (const LostOthers& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1 failed: no space left"));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  });
}

// Rank 3 is gone: 2 comes to wait for it in its copy, 1 waits in the sum, and 0 for 1. 0 has the addresses and stays
// until 2 has asked for reasons.
TEST(Copies, NameWhoIsGoneOfAll) {
  together(4, [](Group& group) {
    ledger::Ledger ledger;
    Copies copies(group, 2, ledger);
    group.now("step 7");
    group.meet();
    if (group.rank() == 3) return;
    try {
      if (group.rank() == 1) {
        copies.begin_sums({at::ones({3})}, true);
        copies.end_sums();
      }
      if (group.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(1));
      copies.sharers().meet();
      ADD_FAILURE() << group.rank() << " has not noticed";
    } catch (const LostOthers& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 3 of 4 does not answer; it was last in step 7"),
                                      Not(HasSubstr("rank 0")), Not(HasSubstr("rank 1")), Not(HasSubstr("rank 2"))));
    }
  });
}

}  // namespace
}  // namespace fathom::dist
