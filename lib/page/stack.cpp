// Samples columns and sums what is small.
#include "page/stack.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace fathom::page {
namespace {

using ledger::Timeline;
using Block = Timeline::Block;

// What is smaller than this share of the peak cannot be pointed at, in however large a window.
constexpr int64_t kSeenShare = 50000;

int64_t end_of(const Block& block, const Timeline& timeline) { return std::min(block.given_back, timeline.events + 1); }

// Live bytes at every position, 0 … events.
std::vector<int64_t> live_bytes(const Timeline& timeline) {
  std::vector<int64_t> live(static_cast<size_t>(timeline.events) + 2);
  for (const Block& block : timeline.blocks) {
    if (block.kernel_scratch) continue;
    live[static_cast<size_t>(block.taken)] += block.bytes;
    live[static_cast<size_t>(end_of(block, timeline))] -= block.bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  return live;
}

std::vector<int64_t> choose_positions(const Timeline& timeline, size_t at_most) {
  const std::vector<int64_t> live = live_bytes(timeline);
  std::vector<int64_t> positions;
  const size_t count = std::min(live.size(), std::max<size_t>(at_most, 1));
  for (size_t column = 0; column < count; ++column) {
    const auto begin = live.begin() + static_cast<std::ptrdiff_t>(live.size() * column / count);
    const auto end = live.begin() + static_cast<std::ptrdiff_t>(live.size() * (column + 1) / count);
    positions.push_back(std::max_element(begin, end) - live.begin());
  }
  return positions;
}

// Which blocks are drawn one by one: those that take the largest areas.
std::vector<bool> choose_parts(const Timeline& timeline, const Stack& stack, size_t at_most) {
  const int64_t seen = std::max<int64_t>(timeline.peak / kSeenShare, 1);
  std::vector<std::pair<double, size_t>> areas;
  for (size_t i = 0; i < timeline.blocks.size(); ++i) {
    const Block& block = timeline.blocks[i];
    if (block.kernel_scratch || block.bytes < seen) continue;
    const size_t columns = stack.column_of(end_of(block, timeline)) - stack.column_of(block.taken);
    areas.emplace_back(static_cast<double>(block.bytes) * static_cast<double>(columns), i);
  }
  std::stable_sort(areas.begin(), areas.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  areas.resize(std::min(areas.size(), at_most));
  std::vector<bool> chosen(timeline.blocks.size());
  for (const auto& [area, which] : areas) chosen[which] = true;
  return chosen;
}

}  // namespace

Timeline without_scratch(const Timeline& timeline) {
  std::vector<int64_t> left(static_cast<size_t>(timeline.events) + 1, 1);  // events of other blocks, then their sum
  left[0] = 0;
  for (const Block& block : timeline.blocks) {
    if (!block.kernel_scratch) continue;
    if (block.taken > 0) left[static_cast<size_t>(block.taken)] = 0;
    if (block.given_back <= timeline.events) left[static_cast<size_t>(block.given_back)] = 0;
  }
  std::partial_sum(left.begin(), left.end(), left.begin());
  const auto renumbered = [&](int64_t position) { return left[static_cast<size_t>(position)]; };

  Timeline result = timeline;
  std::erase_if(result.blocks, [](const Block& block) { return block.kernel_scratch; });
  for (Block& block : result.blocks) {
    block.taken = renumbered(block.taken);
    if (block.given_back <= timeline.events) block.given_back = renumbered(block.given_back);
  }
  for (Timeline::Span& span : result.phases) {
    span.begin = renumbered(span.begin);
    span.end = renumbered(span.end);
  }
  result.peak_position = renumbered(timeline.peak_position);
  result.events = left.back();
  return result;
}

bool same_allocations(const Timeline& a, const Timeline& b) {
  return a.events == b.events && a.phases == b.phases &&
         std::equal(a.blocks.begin(), a.blocks.end(), b.blocks.begin(), b.blocks.end(),
                    [](const Block& left, const Block& right) {
                      return left.bytes == right.bytes && left.taken == right.taken &&
                             left.given_back == right.given_back && left.component == right.component &&
                             left.kernel_scratch == right.kernel_scratch;
                    });
}

size_t Stack::column_of(int64_t position) const {
  return static_cast<size_t>(std::lower_bound(positions.begin(), positions.end(), position) - positions.begin());
}

Stack stack_of(const Timeline& timeline, size_t columns_at_most, size_t parts_at_most) {
  Stack stack;
  stack.positions = choose_positions(timeline, columns_at_most);
  for (auto& bytes : stack.rest) bytes.resize(stack.columns() + 1);
  const std::vector<bool> is_part = choose_parts(timeline, stack, parts_at_most);
  for (size_t i = 0; i < timeline.blocks.size(); ++i) {
    const Block& block = timeline.blocks[i];
    if (block.kernel_scratch) continue;
    const size_t first = stack.column_of(block.taken), end = stack.column_of(end_of(block, timeline));
    if (first == end) continue;  // between two columns
    if (is_part[i]) {
      stack.parts.push_back(block);
    } else {
      auto& bytes = stack.rest[static_cast<size_t>(block.component)];
      bytes[first] += block.bytes;
      bytes[end] -= block.bytes;
    }
  }
  for (auto& bytes : stack.rest) {
    std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
    bytes.pop_back();
  }
  return stack;
}

std::array<std::vector<int64_t>, ledger::kComponentCount> component_bytes(const Stack& stack) {
  auto all = stack.rest;
  for (auto& bytes : all) {
    std::adjacent_difference(bytes.begin(), bytes.end(), bytes.begin());
    bytes.push_back(0);
  }
  for (const Block& block : stack.parts) {
    auto& bytes = all[static_cast<size_t>(block.component)];
    bytes[stack.column_of(block.taken)] += block.bytes;
    bytes[stack.column_of(block.given_back)] -= block.bytes;
  }
  for (auto& bytes : all) {
    std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
    bytes.pop_back();
  }
  return all;
}

Json to_json(const Stack& stack, const Timeline& timeline) {
  Json names = Json::array(), blocks = Json::array(), rest = Json::array(), phases = Json::array();
  std::unordered_map<uint32_t, size_t> numbers;  // of the names that are used
  const auto number_of = [&](uint32_t name) {
    const auto [found, is_new] = numbers.try_emplace(name, names.size());
    if (is_new) names.push_back(timeline.names.at(name));
    return found->second;
  };
  number_of(0);
  for (const Block& block : stack.parts) {
    blocks.push_back({block.bytes, block.taken, block.given_back > timeline.events ? -1 : block.given_back,
                      static_cast<int>(block.component), number_of(block.name), number_of(block.module),
                      number_of(block.op)});
  }
  for (const auto& bytes : stack.rest) {
    Json changes = Json::array();
    int64_t before = 0;
    for (size_t column = 0; column < bytes.size(); ++column) {
      if (bytes[column] == before) continue;
      changes.push_back(column);
      changes.push_back(bytes[column]);
      before = bytes[column];
    }
    rest.push_back(changes);
  }
  for (const Timeline::Span& span : timeline.phases) {
    phases.push_back({ledger::phase_name(span.phase), span.begin, span.end});
  }
  return {{"names", names},
          {"positions", stack.positions},
          {"events", timeline.events},
          {"phases", phases},
          {"blocks", blocks},
          {"rest", rest}};
}

}  // namespace fathom::page
