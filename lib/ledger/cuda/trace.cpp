// The caching allocator's events as lines.
#include "ledger/cuda/trace.h"

#include "base/error.h"

namespace fathom::ledger {

using Entry = c10::cuda::CUDACachingAllocator::TraceEntry;

TraceFile::TraceFile(const std::filesystem::path& path) : out_(path) {
  if (!out_) throw Error("the trace " + path.string() + " cannot be written");
}

size_t TraceFile::stream_of(const Entry& entry) {
  return streams_.try_emplace(static_cast<void*>(entry.stream_), streams_.size()).first->second;
}

void TraceFile::write(const Entry& entry) {
  const char* segment = nullptr;
  switch (entry.action_) {
    case Entry::ALLOC:
      blocks_[entry.addr_] = block_count_;
      out_ << "alloc " << block_count_++ << ' ' << entry.size_ << ' ' << stream_of(entry) << '\n';
      return;
    case Entry::FREE_REQUESTED:
      out_ << "free_requested " << blocks_[entry.addr_] << ' ' << entry.size_ << ' ' << stream_of(entry) << '\n';
      return;
    case Entry::FREE_COMPLETED:
      out_ << "free_completed " << blocks_[entry.addr_] << ' ' << entry.size_ << ' ' << stream_of(entry) << '\n';
      blocks_.erase(entry.addr_);
      return;
    case Entry::OOM:
      out_ << "out_of_memory " << entry.size_ << ' ' << stream_of(entry) << '\n';
      return;
    case Entry::SEGMENT_ALLOC:
      segment = "segment_alloc ";
      break;
    case Entry::SEGMENT_FREE:
      segment = "segment_free ";
      break;
    case Entry::SEGMENT_MAP:
      segment = "segment_map ";
      break;
    case Entry::SEGMENT_UNMAP:
      segment = "segment_unmap ";
      break;
    default:  // snapshots and what users record: nothing happens to memory
      return;
  }
  out_ << segment << entry.size_ << ' ' << stream_of(entry) << ' ' << entry.addr_ << '\n';
}

}  // namespace fathom::ledger
