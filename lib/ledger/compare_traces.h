// Two traces of the caching allocator, as train --trace writes them, event by event.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace fathom::ledger {

struct EventComparison {
  int64_t planned = 0;           // events
  std::string first_difference;  // in words; empty: each came as planned, and after them none that takes memory
};

// Of two files in the form of ledger/cuda/trace.h, addresses apart. segments: what happens to segments counts too.
// Throws Error where one cannot be read.
EventComparison compare_traces(const std::filesystem::path& planned, const std::filesystem::path& measured,
                               bool segments);

// "12,345 events of the allocator, each as planned", or what differs first.
std::string describe(const EventComparison& events);

}  // namespace fathom::ledger
