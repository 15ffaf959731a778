// From a labelled stretch of records to its timeline.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ledger/label.h"
#include "memory/timeline.h"

namespace fathom::ledger {

// Names of the model's parts by number; 0 is the empty one. They stay for the life of the ledger.
struct Modules {
  std::vector<std::string> names = {""};
  std::unordered_map<std::string, uint32_t> numbers = {{"", 0}};
  uint32_t number_of(std::string_view name);
};

// block_names: of claimed blocks, by number.
memory::Timeline make_timeline(const std::vector<Record>& records, const std::vector<uint32_t>& carried,
                               const std::vector<Block>& blocks,
                               const std::unordered_map<uint32_t, std::string>& block_names, const Modules& modules);

}  // namespace fathom::ledger
