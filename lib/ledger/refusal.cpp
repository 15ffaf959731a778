// Two tables and a sentence.
#include "ledger/refusal.h"

#include <array>
#include <cstdio>
#include <vector>

#include "base/bytes.h"
#include "memory/block_groups.h"
#include "report/table.h"

namespace fathom::ledger {
namespace {

std::string share_of(int64_t part, int64_t whole) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text.data();
}

std::vector<memory::BlockGroup> largest_groups(const Ledger::Refusal& refusal) {
  constexpr size_t kShown = 10;
  memory::BlockGroups groups;
  for (const Ledger::Refusal::Holding& block : refusal.blocks) {
    groups.add(block.what, block.component, block.bytes);
  }
  std::vector<memory::BlockGroup> largest = groups.largest_first();
  if (largest.size() > kShown) largest.resize(kShown);
  return largest;
}

std::string phase_in_words(memory::Phase phase) {
  switch (phase) {
    case memory::Phase::kLoad:
      return "while loading";
    case memory::Phase::kForward:
      return "in the forward pass";
    case memory::Phase::kBackward:
      return "in the backward pass";
    case memory::Phase::kOptimizerStep:
      return "in the optimizer step";
    case memory::Phase::kEvaluation:
      return "in the evaluation";
    case memory::Phase::kSave:
      return "while saving";
  }
  return "";
}

}  // namespace

std::string describe_place(const Ledger::Refusal& refusal) {
  std::string text;
  const auto append = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (refusal.phase) append(phase_in_words(*refusal.phase));
  if (!refusal.module.empty()) append("at " + refusal.module);
  if (!refusal.op.empty()) append("by " + refusal.op);
  return text;
}

std::string format_refusal(const Ledger::Refusal& refusal) {
  const int64_t total = refusal.live.total();
  if (total == 0) return "";
  report::Table components({{"alive then", report::Align::kLeft}, {"bytes"}, {""}, {"share"}});
  for (const memory::Component component : memory::kComponents) {
    const int64_t bytes = refusal.live[component];
    components.add_row(
        {std::string(component_name(component)), format_count(bytes), format_bytes(bytes), share_of(bytes, total)});
  }
  components.add_rule();
  components.add_row({"total", format_count(total), format_bytes(total), ""});

  report::Table largest(
      {{"largest groups of blocks", report::Align::kLeft}, {""}, {"bytes"}, {"", report::Align::kLeft}});
  for (const memory::BlockGroup& group : largest_groups(refusal)) {
    largest.add_row({group.what.empty() ? std::string(report::kMissing) : group.what,
                     std::to_string(group.count) + " × " + format_bytes(group.each), format_count(group.bytes()),
                     std::string(component_name(group.component))});
  }
  return components.format() + "\n" + largest.format();
}

}  // namespace fathom::ledger
