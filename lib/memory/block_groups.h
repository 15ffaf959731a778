// Blocks of one kind together: of equal size and component, in all layers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "memory/timeline.h"

namespace fathom::memory {

// "model.layers.3.mlp" as "model.layers.*.mlp".
std::string of_any_layer(const std::string& name);

// The tensor's name, else where in the model and by which operator: "model.layers.3.mlp.up_proj, aten::mm".
std::string describe_block(const std::string& name, const std::string& module, const std::string& op);

struct BlockGroup {
  std::string what;  // of any layer; empty if nothing is known
  Component component = Component::kTemporaryBuffers;
  int64_t each = 0;  // bytes of one
  int64_t count = 0;
  int64_t bytes() const { return each * count; }
};

// Adds blocks up.
class BlockGroups {
 public:
  void add(const std::string& what, Component component, int64_t bytes);
  // In the order in which they were first added.
  const std::vector<BlockGroup>& in_order() const { return groups_; }
  std::vector<BlockGroup> largest_first() const;  // by their bytes together

 private:
  std::vector<BlockGroup> groups_;
  std::map<std::tuple<std::string, Component, int64_t>, size_t> numbers_;
};

// What is alive at the peak; added in the order of the largest blocks.
BlockGroups groups_at_peak(const Timeline& timeline);

}  // namespace fathom::memory
