// Replays the blocks in the order of events.
#include "page/snapshot.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "page/pickle.h"
#include "page/stack.h"

namespace fathom::page {
namespace {

using memory::Timeline;
using Block = Timeline::Block;

constexpr int64_t kFirstAddress = int64_t{1} << 32;

// Hands out the lowest range that is free and large enough.
class AddressSpace {
 public:
  int64_t take(int64_t bytes) {
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      const auto [begin, end] = *range;
      if (end - begin < bytes) continue;
      free_.erase(range);
      if (end - begin > bytes) free_.emplace(begin + bytes, end);
      return begin;
    }
    const int64_t begin = end_;
    end_ = checked_add(end_, bytes, "the addresses of a snapshot");
    return begin;
  }

  void give_back(int64_t begin, int64_t bytes) {
    int64_t end = begin + bytes;
    const auto next = free_.lower_bound(begin);
    if (next != free_.end() && next->first == end) {
      end = next->second;
      free_.erase(next);
    }
    const auto after = free_.lower_bound(begin);
    if (after != free_.begin() && std::prev(after)->second == begin) {
      std::prev(after)->second = end;
    } else {
      free_.emplace(begin, end);
    }
  }

  int64_t size() const { return end_ - kFirstAddress; }

 private:
  std::map<int64_t, int64_t> free_;  // begin, end; no two touch
  int64_t end_ = kFirstAddress;
};

struct Event {
  const Block* block;
  int64_t position;
  bool taken;
};

std::vector<Event> events_of(const Timeline& timeline) {
  std::vector<Event> events;
  for (const Block& block : timeline.blocks) {
    if (block.bytes == 0) continue;
    events.push_back({&block, block.taken, true});
    if (block.given_back <= timeline.events) events.push_back({&block, block.given_back, false});
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.position < b.position; });
  return events;
}

class Writer {
 public:
  explicit Writer(const Timeline& timeline) : timeline_(timeline) {}

  std::string write() {
    pickle_.begin_dict();
    pickle_.text("device_traces");
    pickle_.begin_list();
    write_trace();
    pickle_.end_list();
    pickle_.text("segments");
    pickle_.begin_list();
    if (!alive_.empty()) write_segment();
    pickle_.end_list();
    pickle_.text("external_annotations");
    pickle_.begin_list();
    pickle_.end_list();
    pickle_.text("allocator_settings");
    pickle_.begin_dict();
    pickle_.end_dict();
    pickle_.end_dict();
    return pickle_.finish();
  }

 private:
  void write_frame(const char* what, std::string_view name) {
    if (name.empty()) return;
    pickle_.begin_dict();
    pickle_.entry("filename", what);
    pickle_.entry("line", 0);
    pickle_.entry("name", name);
    pickle_.end_dict();
  }

  // The innermost first, as Python's.
  void write_frames(const Block& block) {
    pickle_.text("frames");
    const auto key = std::tuple(block.name, block.module, block.op, block.component);
    if (const auto known = frames_.find(key); known != frames_.end()) return pickle_.recall(known->second);
    pickle_.begin_list();
    write_frame("tensor", timeline_.names.at(block.name));
    write_frame("operator", timeline_.names.at(block.op));
    write_frame("module", timeline_.names.at(block.module));
    write_frame("component", memory::component_name(block.component));
    pickle_.end_list();
    frames_.emplace(key, pickle_.remember());
  }

  void write_event(const char* action, const Block& block, int64_t address) {
    pickle_.begin_dict();
    pickle_.entry("action", action);
    pickle_.entry("addr", address);
    pickle_.entry("size", block.bytes);
    pickle_.entry("stream", 0);
    write_frames(block);
    pickle_.entry("category", memory::component_name(block.component));
    pickle_.end_dict();
  }

  // MemoryViz.js fails on categories without "unknown" among them.
  void write_mark() {
    pickle_.begin_dict();
    pickle_.entry("action", "snapshot");
    for (const char* key : {"addr", "size", "stream"}) pickle_.entry(key, 0);
    pickle_.entry("category", "unknown");
    pickle_.end_dict();
  }

  void write_trace() {
    std::map<const Block*, int64_t> addresses;
    pickle_.begin_list();
    write_mark();
    for (const Event& event : events_of(timeline_)) {
      if (event.taken) {
        const int64_t address = space_.take(event.block->bytes);
        addresses[event.block] = address;
        alive_[address] = event.block;
        write_event("alloc", *event.block, address);
      } else {
        const int64_t address = addresses.at(event.block);
        write_event("free_requested", *event.block, address);
        write_event("free_completed", *event.block, address);
        space_.give_back(address, event.block->bytes);
        alive_.erase(address);
      }
    }
    pickle_.end_list();
  }

  void write_inactive(int64_t address, int64_t bytes) {
    if (bytes == 0) return;
    pickle_.begin_dict();
    pickle_.entry("address", address);
    pickle_.entry("size", bytes);
    pickle_.entry("requested_size", 0);
    pickle_.entry("state", "inactive");
    pickle_.text("frames");
    pickle_.begin_list();
    pickle_.end_list();
    pickle_.end_dict();
  }

  void write_blocks() {
    int64_t end = kFirstAddress;
    for (const auto& [address, block] : alive_) {
      write_inactive(end, address - end);
      pickle_.begin_dict();
      pickle_.entry("address", address);
      pickle_.entry("size", block->bytes);
      pickle_.entry("requested_size", block->bytes);
      pickle_.entry("state", "active_allocated");
      write_frames(*block);
      pickle_.end_dict();
      end = address + block->bytes;
    }
    write_inactive(end, kFirstAddress + space_.size() - end);
  }

  void write_segment() {
    int64_t alive = 0;
    for (const auto& [address, block] : alive_) alive += block->bytes;
    pickle_.begin_dict();
    pickle_.entry("device", 0);
    pickle_.entry("address", kFirstAddress);
    pickle_.entry("total_size", space_.size());
    for (const char* size : {"allocated_size", "active_size", "requested_size"}) pickle_.entry(size, alive);
    pickle_.entry("stream", 0);
    pickle_.entry("segment_type", "large");
    pickle_.text("frames");
    pickle_.begin_list();
    pickle_.end_list();
    pickle_.text("blocks");
    pickle_.begin_list();
    write_blocks();
    pickle_.end_list();
    pickle_.end_dict();
  }

  const Timeline& timeline_;
  PickleWriter pickle_;
  AddressSpace space_;
  std::map<int64_t, const Block*> alive_;  // at the end of the trace, by address
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, memory::Component>, uint32_t> frames_;
};

}  // namespace

std::string snapshot_pickle(const Timeline& timeline) {
  const Timeline shown = without_scratch(timeline);
  return Writer(shown).write();
}

}  // namespace fathom::page
