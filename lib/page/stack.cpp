// Samples columns, and writes blocks small.
#include "page/stack.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

#include "base/json_value.h"

namespace fathom::page {
namespace {

using memory::Timeline;
using Block = Timeline::Block;

int64_t end_of(const Block& block, const Timeline& timeline) { return std::min(block.given_back, timeline.events + 1); }

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

}  // namespace

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

Stack stack_of(const Timeline& timeline, size_t columns_at_most) {
  Stack stack;
  stack.positions = choose_positions(timeline, columns_at_most);
  for (auto& bytes : stack.bytes) bytes.resize(stack.columns() + 1);
  for (const Block& block : timeline.blocks) {
    if (block.kernel_scratch) continue;
    auto& bytes = stack.bytes[static_cast<size_t>(block.component)];
    bytes[stack.column_of(block.taken)] += block.bytes;
    bytes[stack.column_of(end_of(block, timeline))] -= block.bytes;
  }
  for (auto& bytes : stack.bytes) {
    std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
    bytes.pop_back();
  }
  return stack;
}

Json script_data(const Timeline& timeline) {
  Json names = Json::array(), sizes = Json::array(), labels = Json::array(), blocks = Json::array(),
       phases = Json::array();
  std::unordered_map<uint32_t, size_t> name_numbers;
  std::unordered_map<int64_t, size_t> size_numbers;
  std::map<std::array<uint32_t, 4>, size_t> label_numbers;
  const auto number_of = [](auto& numbers, const auto& key, Json& table, const auto& entry) {
    const auto [found, is_new] = numbers.try_emplace(key, table.size());
    if (is_new) table.push_back(entry());
    return found->second;
  };
  const auto name = [&](uint32_t which) {
    return number_of(name_numbers, which, names, [&] { return Json(timeline.names.at(which)); });
  };
  int64_t before = 0;
  for (const Block& block : timeline.blocks) {
    if (block.kernel_scratch) continue;
    const auto component = static_cast<uint32_t>(block.component);
    const std::array<uint32_t, 4> label = {component, block.name, block.module, block.op};
    blocks.push_back(number_of(size_numbers, block.bytes, sizes, [&] { return Json(block.bytes); }));
    blocks.push_back(number_of(label_numbers, label, labels, [&] {
      return Json{component, name(block.name), name(block.module), name(block.op)};
    }));
    blocks.push_back(block.taken - before);
    blocks.push_back(block.given_back > timeline.events ? 0 : block.given_back - block.taken);
    before = block.taken;
  }
  for (const Timeline::Span& span : timeline.phases) {
    phases.push_back({memory::phase_name(span.phase), span.begin, span.end});
  }
  return {{"events", timeline.events}, {"phases", phases}, {"names", names}, {"sizes", sizes},
          {"labels", labels},          {"blocks", blocks}};
}

}  // namespace fathom::page
