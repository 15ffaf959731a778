// What is drawn adds up to what was alive, at every column, however much is sampled and summed.
#include "page/stack.h"

#include <gtest/gtest.h>

#include "tests/page/example.h"

namespace fathom::page {
namespace {

using ledger::Component;

void expect_equal_sums(const Timeline& timeline, const Stack& stack) {
  const auto sums = component_bytes(stack);
  for (size_t column = 0; column < stack.columns(); ++column) {
    for (const Component component : ledger::kComponents) {
      const auto of = static_cast<size_t>(component);
      int64_t drawn = stack.rest[of][column];
      for (const Timeline::Block& part : stack.parts) {
        const bool alive = stack.column_of(part.taken) <= column && column < stack.column_of(part.given_back);
        if (alive && part.component == component) drawn += part.bytes;
      }
      ASSERT_EQ(drawn, live_bytes(timeline, component, stack.positions[column])) << "column " << column;
      ASSERT_EQ(sums[of][column], drawn) << "column " << column;
    }
  }
}

TEST(Stack, AddsUpAtEveryColumn) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Timeline timeline = random_timeline(seed, static_cast<int>(seed % 7), static_cast<int>(seed * 11));
    for (const size_t columns : {1, 7, 100, 100000}) {
      for (const size_t parts : {0, 5, 100000}) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", columns " + std::to_string(columns) + ", parts " +
                     std::to_string(parts));
        const Stack stack = stack_of(timeline, columns, parts);
        EXPECT_LE(stack.parts.size(), parts);
        EXPECT_LE(stack.columns(), columns);
        expect_equal_sums(timeline, stack);
      }
    }
  }
}

TEST(Stack, KeepsThePeak) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Timeline timeline = random_timeline(seed, 3, 500);
    const Stack stack = stack_of(timeline, 20, 10);
    const size_t peak = stack.column_of(timeline.peak_position);
    ASSERT_LT(peak, stack.columns());
    EXPECT_EQ(stack.positions[peak], timeline.peak_position);
  }
}

TEST(Stack, ShowsEveryPositionWhereThereIsRoom) {
  const Timeline timeline = random_timeline(5, 3, 99);
  const Stack stack = stack_of(timeline, 100, 1000);
  std::vector<int64_t> all(100);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(stack.positions, all);
}

TEST(Stack, DrawsTheLargestBlocksSingly) {
  Timeline timeline;
  timeline.blocks = {{.bytes = 1, .given_back = Timeline::kNever},
                     {.bytes = 500000, .given_back = Timeline::kNever},
                     {.bytes = 499999, .given_back = Timeline::kNever}};
  timeline.peak = 1000000;
  EXPECT_EQ(stack_of(timeline, 10, 10).parts.size(), 2U) << "one byte of a million cannot be seen";
  const Stack one = stack_of(timeline, 10, 1);
  ASSERT_EQ(one.parts.size(), 1U);
  EXPECT_EQ(one.parts[0].bytes, 500000);
}

TEST(Stack, OfNothingIsEmpty) {
  const Stack stack = stack_of(Timeline(), 10, 10);
  EXPECT_EQ(stack.columns(), 1U);
  EXPECT_TRUE(stack.parts.empty());
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

TEST(StackJson, GivesTheScriptWhatItNeeds) {
  const Timeline timeline = random_timeline(9, 4, 200);
  const Stack stack = stack_of(timeline, 50, 20);
  const Json json = to_json(stack, timeline);
  EXPECT_EQ(json["positions"].size(), 50U);
  EXPECT_EQ(json["events"], 200);
  ASSERT_EQ(json["blocks"].size(), stack.parts.size());
  for (size_t i = 0; i < stack.parts.size(); ++i) {
    const Timeline::Block& part = stack.parts[i];
    const Json& block = json["blocks"][i];
    EXPECT_EQ(block[0], part.bytes);
    EXPECT_EQ(block[1], part.taken);
    EXPECT_EQ(block[2], part.given_back == Timeline::kNever ? -1 : part.given_back);
    EXPECT_EQ(json["names"][block[4].get<size_t>()], timeline.names[part.name]);
    EXPECT_EQ(json["names"][block[6].get<size_t>()], timeline.names[part.op]);
  }
  for (size_t component = 0; component < stack.rest.size(); ++component) {
    std::vector<int64_t> read(stack.columns());
    const Json& changes = json["rest"][component];
    for (size_t i = 0; i < changes.size(); i += 2) {
      std::fill(read.begin() + changes[i].get<std::ptrdiff_t>(), read.end(), changes[i + 1].get<int64_t>());
    }
    EXPECT_EQ(read, stack.rest[component]);
  }
}

}  // namespace
}  // namespace fathom::page
