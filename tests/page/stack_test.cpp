// What is drawn adds up to what was alive, at every column, however much is sampled and summed.
#include "page/stack.h"

#include <gtest/gtest.h>

#include "base/json_value.h"
#include "tests/page/example.h"

namespace fathom::page {
namespace {

using memory::Component;

TEST(Stack, AddsUpAtEveryColumn) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Timeline timeline = random_timeline(seed, static_cast<int>(seed % 7), static_cast<int>(seed * 11));
    for (const size_t columns : {1, 7, 100, 100000}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", columns " + std::to_string(columns));
      const Stack stack = stack_of(timeline, columns);
      EXPECT_LE(stack.columns(), columns);
      for (size_t column = 0; column < stack.columns(); ++column) {
        for (const Component component : memory::kComponents) {
          ASSERT_EQ(stack.bytes[static_cast<size_t>(component)][column],
                    live_bytes(timeline, component, stack.positions[column]))
              << "column " << column;
        }
      }
    }
  }
}

TEST(Stack, KeepsThePeak) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Timeline timeline = random_timeline(seed, 3, 500);
    const Stack stack = stack_of(timeline, 20);
    const size_t peak = stack.column_of(timeline.peak_position);
    ASSERT_LT(peak, stack.columns());
    EXPECT_EQ(stack.positions[peak], timeline.peak_position);
  }
}

TEST(Stack, ShowsEveryPositionWhereThereIsRoom) {
  const Timeline timeline = random_timeline(5, 3, 99);
  std::vector<int64_t> all(100);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(stack_of(timeline, 100).positions, all);
}

TEST(Stack, OfNothingIsEmpty) { EXPECT_EQ(stack_of(Timeline(), 10).columns(), 1U); }

TEST(LiveBytes, AreThoseOfTheBlocksAtEveryPosition) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Timeline timeline = random_timeline(seed, 4, 120);
    const std::vector<int64_t> live = live_bytes(timeline);
    ASSERT_EQ(live.size(), 121U);
    for (size_t position = 0; position < live.size(); ++position) {
      ASSERT_EQ(live[position], live_bytes(timeline, static_cast<int64_t>(position))) << "seed " << seed;
    }
  }
}

TEST(WithoutScratch, KeepsEveryOtherEvent) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Timeline timeline = random_timeline(seed, 5, 300);
    const Timeline shown = without_scratch(timeline);
    EXPECT_EQ(shown.peak, timeline.peak);
    EXPECT_EQ(live_bytes(shown, shown.peak_position), timeline.peak);
    int64_t scratch_events = 0;
    std::vector<bool> of_scratch(static_cast<size_t>(timeline.events) + 1);
    for (const Timeline::Block& block : timeline.blocks) {
      if (!block.kernel_scratch) continue;
      of_scratch[static_cast<size_t>(block.taken)] = true;
      if (block.given_back <= timeline.events) of_scratch[static_cast<size_t>(block.given_back)] = true;
    }
    int64_t position = 0;
    for (int64_t event = 0; event <= timeline.events; ++event) {
      if (event > 0 && !of_scratch[static_cast<size_t>(event)]) position++;
      scratch_events += of_scratch[static_cast<size_t>(event)] ? 1 : 0;
      ASSERT_EQ(live_bytes(shown, position), live_bytes(timeline, event)) << "seed " << seed << ", event " << event;
    }
    EXPECT_EQ(shown.events, timeline.events - scratch_events);
  }
}

TEST(SameAllocations, LooksAtBytesAndOrder) {
  const Timeline timeline = random_timeline(3, 5, 100);
  Timeline other = timeline;
  EXPECT_TRUE(same_allocations(timeline, other));
  other.blocks[7].op = 0;
  other.blocks[7].name = 0;
  EXPECT_TRUE(same_allocations(timeline, other)) << "names do not count";
  other.blocks[7].bytes++;
  EXPECT_FALSE(same_allocations(timeline, other));
  other = timeline;
  other.phases[0].end--;
  EXPECT_FALSE(same_allocations(timeline, other));
}

// Reads what the script reads, as the script does.
Timeline read_back(const Json& json) {
  Timeline timeline;
  timeline.names = json["names"].get<std::vector<std::string>>();
  timeline.events = json["events"];
  int64_t taken = 0;
  for (size_t i = 0; i < json["blocks"].size(); i += 4) {
    const Json& label = json["labels"][json["blocks"][i + 1].get<size_t>()];
    taken += json["blocks"][i + 2].get<int64_t>();
    const auto life = json["blocks"][i + 3].get<int64_t>();
    timeline.blocks.push_back({.bytes = json["sizes"][json["blocks"][i].get<size_t>()],
                               .taken = taken,
                               .given_back = life == 0 ? Timeline::kNever : taken + life,
                               .component = memory::kComponents.at(label[0].get<size_t>()),
                               .name = label[1],
                               .module = label[2],
                               .op = label[3]});
  }
  return timeline;
}

TEST(StackJson, HoldsEveryBlock) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Timeline timeline = random_timeline(seed, 4, 400);
    const Timeline read = read_back(script_data(timeline));
    size_t at = 0;
    for (const Timeline::Block& block : timeline.blocks) {
      if (block.kernel_scratch) continue;
      const Timeline::Block& same = read.blocks.at(at++);
      EXPECT_EQ(same.bytes, block.bytes);
      EXPECT_EQ(same.taken, block.taken);
      EXPECT_EQ(same.given_back, block.given_back);
      EXPECT_EQ(same.component, block.component);
      EXPECT_EQ(read.names[same.name], timeline.names[block.name]);
      EXPECT_EQ(read.names[same.module], timeline.names[block.module]);
      EXPECT_EQ(read.names[same.op], timeline.names[block.op]);
    }
    EXPECT_EQ(at, read.blocks.size());
  }
}

TEST(StackJson, TakesAFewBytesABlock) {
  const Timeline timeline = random_timeline(9, 4, 40000);
  const size_t bytes = script_data(timeline).dump().size();
  EXPECT_LT(bytes, timeline.blocks.size() * 30) << "a step of 107,000 blocks must stay a page";
}

}  // namespace
}  // namespace fathom::page
