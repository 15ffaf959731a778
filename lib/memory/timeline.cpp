// Timelines as JSON: one array of numbers for each block, so that a step of a large model stays small.
#include "memory/timeline.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/json_reason.h"
#include "base/json_value.h"

namespace fathom::memory {
namespace {

constexpr int64_t kNotGivenBack = -1;  // stands for Timeline::kNever in JSON

template <typename Enumeration>
Enumeration checked(int64_t number, int count, const char* what) {
  if (number < 0 || number >= count)
    throw Error("a timeline has no " + std::string(what) + " " + std::to_string(number));
  return static_cast<Enumeration>(number);
}

Timeline::Block block_from_json(const Json& value, const Timeline& timeline) {
  const auto name = [&](size_t index) {
    const auto number = value.at(index).get<uint32_t>();
    if (number >= timeline.names.size()) throw Error("a timeline has no name " + std::to_string(number));
    return number;
  };
  Timeline::Block block;
  block.bytes = value.at(0).get<int64_t>();
  block.taken = value.at(1).get<int64_t>();
  block.given_back = value.at(2).get<int64_t>();
  if (block.given_back == kNotGivenBack) block.given_back = Timeline::kNever;
  if (block.bytes < 0 || block.taken < 0 || block.taken > timeline.events || block.given_back < block.taken) {
    throw Error("a timeline has a block that ends before it begins, or with fewer than 0 bytes");
  }
  block.component = checked<Component>(value.at(3).get<int64_t>(), kComponentCount, "component");
  block.kernel_scratch = value.at(4).get<int>() != 0;
  block.name = name(5);
  block.module = name(6);
  block.op = name(7);
  return block;
}

}  // namespace

std::vector<Timeline::Block> largest_at_peak(const Timeline& timeline, size_t count) {
  std::vector<Timeline::Block> alive;
  for (const Timeline::Block& block : timeline.blocks) {
    const bool at_peak = block.taken <= timeline.peak_position && timeline.peak_position < block.given_back;
    if (at_peak && !block.kernel_scratch) alive.push_back(block);
  }
  std::stable_sort(alive.begin(), alive.end(),
                   [](const Timeline::Block& a, const Timeline::Block& b) { return a.bytes > b.bytes; });
  if (alive.size() > count) alive.resize(count);
  return alive;
}

Json to_json(const Timeline& timeline) {
  Json blocks = Json::array(), phases = Json::array();
  for (const Timeline::Block& block : timeline.blocks) {
    blocks.push_back({block.bytes, block.taken, block.given_back == Timeline::kNever ? kNotGivenBack : block.given_back,
                      static_cast<int>(block.component), block.kernel_scratch ? 1 : 0, block.name, block.module,
                      block.op});
  }
  for (const Timeline::Span& span : timeline.phases) {
    phases.push_back({static_cast<int>(span.phase), span.begin, span.end});
  }
  return {{"names", timeline.names}, {"events", timeline.events},
          {"peak", timeline.peak},   {"peak_position", timeline.peak_position},
          {"phases", phases},        {"blocks", blocks}};
}

Timeline timeline_from_json(const Json& value) try {
  Timeline timeline;
  timeline.names = value.at("names").get<std::vector<std::string>>();
  if (timeline.names.empty()) throw Error("a timeline has no names");
  timeline.events = value.at("events").get<int64_t>();
  timeline.peak = value.at("peak").get<int64_t>();
  timeline.peak_position = value.at("peak_position").get<int64_t>();
  for (const Json& span : value.at("phases")) {
    timeline.phases.push_back({checked<Phase>(span.at(0).get<int64_t>(), kPhaseCount, "phase"),
                               span.at(1).get<int64_t>(), span.at(2).get<int64_t>()});
  }
  for (const Json& block : value.at("blocks")) timeline.blocks.push_back(block_from_json(block, timeline));
  return timeline;
} catch (const nlohmann::json::exception& error) {
  throw Error(std::string("a timeline has another form than expected: ") + reason_of(error));
}

}  // namespace fathom::memory
