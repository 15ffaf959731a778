// Numbers the events of a stretch and notes for each block when it came and went.
#include "ledger/stretch_timeline.h"

#include <optional>

namespace fathom::ledger {
namespace {

using Kind = Record::Kind;

class Writer {
 public:
  Writer(const std::vector<Block>& blocks, const std::unordered_map<uint32_t, std::string>& block_names,
         const Modules& modules)
      : blocks_(blocks), block_names_(block_names), modules_(modules) {}

  void take(uint32_t number) {
    const Block& block = blocks_[number];
    const auto name = block_names_.find(number);
    written_[number] = timeline_.blocks.size();
    timeline_.blocks.push_back({.bytes = block.bytes,
                                .taken = timeline_.events,
                                .component = component_of(block),
                                .kernel_scratch = block.kernel_scratch,
                                .name = name == block_names_.end() ? 0 : number_of(name->second),
                                .module = number_of(modules_.names[block.module]),
                                .op = block.call.op == nullptr ? 0 : number_of(block.call.op)});
    if (!block.kernel_scratch) live_ += block.bytes;
    if (live_ > timeline_.peak) {
      timeline_.peak = live_;
      timeline_.peak_position = timeline_.events;
    }
  }

  void give_back(uint32_t number) {
    timeline_.blocks[written_.at(number)].given_back = timeline_.events;
    if (!blocks_[number].kernel_scratch) live_ -= blocks_[number].bytes;
  }

  void next_event() { timeline_.events++; }

  void begin(memory::Phase phase) {
    end();
    open_ = phase;
    begun_ = timeline_.events;
  }
  void end() {
    if (open_) timeline_.phases.push_back({*open_, begun_, timeline_.events});
    open_.reset();
  }

  memory::Timeline finish() {
    end();
    return std::move(timeline_);
  }

 private:
  uint32_t number_of(const std::string& name) {
    if (name.empty()) return 0;
    const auto [found, is_new] = numbers_.try_emplace(name, static_cast<uint32_t>(timeline_.names.size()));
    if (is_new) timeline_.names.push_back(name);
    return found->second;
  }

  const std::vector<Block>& blocks_;
  const std::unordered_map<uint32_t, std::string>& block_names_;
  const Modules& modules_;
  std::unordered_map<std::string, uint32_t> numbers_;
  std::unordered_map<uint32_t, size_t> written_;  // the slot's block in the timeline
  memory::Timeline timeline_;
  std::optional<memory::Phase> open_;
  int64_t begun_ = 0, live_ = 0;
};

}  // namespace

uint32_t Modules::number_of(std::string_view name) {
  const auto [found, is_new] = numbers.try_emplace(std::string(name), static_cast<uint32_t>(names.size()));
  if (is_new) names.emplace_back(name);
  return found->second;
}

memory::Timeline make_timeline(const std::vector<Record>& records, const std::vector<uint32_t>& carried,
                               const std::vector<Block>& blocks,
                               const std::unordered_map<uint32_t, std::string>& block_names, const Modules& modules) {
  Writer writer(blocks, block_names, modules);
  for (const uint32_t number : carried) writer.take(number);
  for (const Record& record : records) {
    switch (record.kind) {
      case Kind::kAllocate:
        writer.next_event();
        writer.take(record.block);
        break;
      case Kind::kFree:
        writer.next_event();
        writer.give_back(record.block);
        break;
      case Kind::kBeginPhase:
        writer.begin(record.phase);
        break;
      case Kind::kEndPhase:
        writer.end();
        break;
      case Kind::kBeginRecomputation:
      case Kind::kBeginSegmentBackward:
        break;
    }
  }
  return writer.finish();
}

}  // namespace fathom::ledger
