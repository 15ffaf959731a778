// Names without their layer's number are the groups' keys.
#include "memory/block_groups.h"

#include <algorithm>
#include <sstream>

namespace fathom::memory {

std::string of_any_layer(const std::string& name) {
  std::string text;
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '.');) {
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    if (!text.empty()) text.push_back('.');
    text.append(number ? "*" : part.c_str());
  }
  return text;
}

std::string describe_block(const std::string& name, const std::string& module, const std::string& op) {
  if (!name.empty()) return name;
  if (module.empty() || op.empty()) return module.empty() ? op : module;
  return module + ", " + op;
}

void BlockGroups::add(const std::string& what, Component component, int64_t bytes) {
  const auto [found, is_new] = numbers_.try_emplace({of_any_layer(what), component, bytes}, groups_.size());
  if (is_new) groups_.push_back({std::get<0>(found->first), component, bytes, 0});
  groups_[found->second].count += 1;
}

std::vector<BlockGroup> BlockGroups::largest_first() const {
  std::vector<BlockGroup> sorted = groups_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const BlockGroup& a, const BlockGroup& b) { return a.bytes() > b.bytes(); });
  return sorted;
}

BlockGroups groups_at_peak(const Timeline& timeline) {
  BlockGroups groups;
  for (const Timeline::Block& block : largest_at_peak(timeline, timeline.blocks.size())) {
    groups.add(
        describe_block(timeline.names.at(block.name), timeline.names.at(block.module), timeline.names.at(block.op)),
        block.component, block.bytes);
  }
  return groups;
}

}  // namespace fathom::memory
