// What the caching allocator does, as lines of text: to compare two runs event by event.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <unordered_map>

namespace fathom::ledger {

// One line an event:
//   alloc BLOCK BYTES STREAM              a block is asked for; BYTES as asked, before any rounding
//   free_requested BLOCK BYTES STREAM     its tensor died; another stream may still use it
//   free_completed BLOCK BYTES STREAM     its bytes can be taken again
//   segment_alloc BYTES STREAM ADDRESS    memory is taken from the driver; likewise segment_map of expandable segments
//   segment_free BYTES STREAM ADDRESS     … and given back; likewise segment_unmap
//   out_of_memory BYTES STREAM            a request is refused
// BLOCK counts the blocks and STREAM the streams in the order in which they appear, from 0. Addresses alone depend on
// the driver.
class TraceFile {
 public:
  explicit TraceFile(const std::filesystem::path& path);  // throws Error if it cannot be written
  void write(const c10::cuda::CUDACachingAllocator::TraceEntry& entry);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  size_t stream_of(const c10::cuda::CUDACachingAllocator::TraceEntry& entry);

  void line(const char* action, const c10::cuda::CUDACachingAllocator::TraceEntry& entry, size_t block);

  std::unique_ptr<std::FILE, Close> out_;      // where the process ends first, the C library writes out what it holds
  std::unordered_map<size_t, size_t> blocks_;  // that are alive, by address
  std::unordered_map<void*, size_t> streams_;
  size_t block_count_ = 0;
};

}  // namespace fathom::ledger
