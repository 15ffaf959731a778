// The caching allocator's events as lines.
#include "ledger/cuda/trace.h"

#include "base/error.h"

namespace fathom::ledger {

using Entry = c10::cuda::CUDACachingAllocator::TraceEntry;

TraceFile::TraceFile(const std::filesystem::path& path) : out_(std::fopen(path.c_str(), "we")) {
  if (out_ == nullptr) throw Error("the trace " + path.string() + " cannot be written");
}

size_t TraceFile::stream_of(const Entry& entry) {
  return streams_.try_emplace(static_cast<void*>(entry.stream_), streams_.size()).first->second;
}

void TraceFile::line(const char* action, const Entry& entry, size_t block) {
  std::fprintf(out_.get(), "%s %zu %zu %zu\n", action, block, entry.size_, stream_of(entry));
}

void TraceFile::write(const Entry& entry) {
  const auto segment = [&](const char* action) {
    std::fprintf(out_.get(), "%s %zu %zu %zu\n", action, entry.size_, stream_of(entry), entry.addr_);
  };
  switch (entry.action_) {
    case Entry::ALLOC:
      blocks_[entry.addr_] = block_count_;
      return line("alloc", entry, block_count_++);
    case Entry::FREE_REQUESTED:
      return line("free_requested", entry, blocks_[entry.addr_]);
    case Entry::FREE_COMPLETED:
      line("free_completed", entry, blocks_[entry.addr_]);
      blocks_.erase(entry.addr_);
      return;
    case Entry::SEGMENT_ALLOC:
      return segment("segment_alloc");
    case Entry::SEGMENT_FREE:
      return segment("segment_free");
    case Entry::SEGMENT_MAP:
      return segment("segment_map");
    case Entry::SEGMENT_UNMAP:
      return segment("segment_unmap");
    case Entry::OOM:
      std::fprintf(out_.get(), "out_of_memory %zu %zu\n", entry.size_, stream_of(entry));
      return;
    default:  // snapshots and what users record: nothing happens to memory
      return;
  }
}

}  // namespace fathom::ledger
