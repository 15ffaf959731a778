// Two tables and a sentence.
#include "report/refusal.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "report/table.h"

namespace fathom::report {
namespace {

std::string share_of(int64_t part, int64_t whole) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text.data();
}

// Blocks of one kind in all layers.
struct Group {
  std::string what;  // "model.layers.*.mlp.up_proj (aten::mm)"
  ledger::Component component;
  int64_t count = 0, bytes = 0;
};

// "model.layers.3.mlp" as "model.layers.*.mlp".
std::string of_any_layer(const std::string& name) {
  constexpr std::string_view kLayers = ".layers.";
  const size_t from = name.find(kLayers);
  if (from == std::string::npos) return name;
  const size_t number = from + kLayers.size(), end = name.find('.', number);
  return name.substr(0, number) + "*" + (end == std::string::npos ? "" : name.substr(end));
}

std::vector<Group> largest_groups(const ledger::Ledger::Refusal& refusal) {
  constexpr size_t kShown = 10;
  std::map<std::tuple<std::string, ledger::Component, int64_t>, Group> groups;
  for (const ledger::Ledger::Refusal::Holding& block : refusal.blocks) {
    const std::string what = of_any_layer(block.what);
    Group& group = groups.try_emplace({what, block.component, block.bytes}, Group{what, block.component}).first->second;
    group.count += 1;
    group.bytes += block.bytes;
  }
  std::vector<Group> sorted;
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  std::sort(sorted.begin(), sorted.end(), [](const Group& a, const Group& b) { return a.bytes > b.bytes; });
  if (sorted.size() > kShown) sorted.resize(kShown);
  return sorted;
}

std::string phase_in_words(ledger::Phase phase) {
  switch (phase) {
    case ledger::Phase::kLoad:
      return "while loading";
    case ledger::Phase::kForward:
      return "in the forward pass";
    case ledger::Phase::kBackward:
      return "in the backward pass";
    case ledger::Phase::kOptimizerStep:
      return "in the optimizer step";
    case ledger::Phase::kEvaluation:
      return "in the evaluation";
    case ledger::Phase::kSave:
      return "while saving";
  }
  return "";
}

}  // namespace

std::string describe_place(const ledger::Ledger::Refusal& refusal) {
  std::string text;
  const auto append = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (refusal.phase) append(phase_in_words(*refusal.phase));
  if (!refusal.module.empty()) append("at " + refusal.module);
  if (!refusal.op.empty()) append("by " + refusal.op);
  return text;
}

std::string format_refusal(const ledger::Ledger::Refusal& refusal) {
  const int64_t total = refusal.live.total();
  if (total == 0) return "";
  Table components({{"alive then", Align::kLeft}, {"bytes"}, {""}, {"share"}});
  for (const ledger::Component component : ledger::kComponents) {
    const int64_t bytes = refusal.live[component];
    components.add_row(
        {std::string(component_name(component)), format_count(bytes), format_bytes(bytes), share_of(bytes, total)});
  }
  components.add_rule();
  components.add_row({"total", format_count(total), format_bytes(total), ""});

  Table largest({{"largest groups of blocks", Align::kLeft}, {""}, {"bytes"}, {"", Align::kLeft}});
  for (const Group& group : largest_groups(refusal)) {
    largest.add_row({group.what.empty() ? std::string(kMissing) : group.what,
                     std::to_string(group.count) + " × " + format_bytes(group.bytes / group.count),
                     format_count(group.bytes), std::string(component_name(group.component))});
  }
  return components.format() + "\n" + largest.format();
}

}  // namespace fathom::report
