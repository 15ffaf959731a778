// Line by line.
#include "ledger/compare_traces.h"

#include <algorithm>
#include <string_view>

#include "base/file.h"
#include "base/numbers.h"

namespace fathom::ledger {
namespace {

// Reads the events that count.
class Events {
 public:
  Events(const std::filesystem::path& file, bool segments)
      : file_(file), rest_(reinterpret_cast<const char*>(file_.data()), file_.size()), segments_(segments) {}
  // Without the address of a segment; empty: there are no more.
  std::string_view next() {
    while (!rest_.empty()) {
      const std::string_view line = rest_.substr(0, rest_.find('\n'));
      rest_.remove_prefix(std::min(rest_.size(), line.size() + 1));
      if (!line.starts_with("segment_")) return line;
      if (segments_) return line.substr(0, line.rfind(' '));
    }
    return "";
  }

 private:
  MappedFile file_;
  std::string_view rest_;
  bool segments_;
};

bool takes_memory(std::string_view event) {
  return event.starts_with("alloc ") || event.starts_with("segment_alloc ") || event.starts_with("segment_map ") ||
         event.starts_with("out_of_memory ");
}

}  // namespace

EventComparison compare_traces(const std::filesystem::path& planned, const std::filesystem::path& measured,
                               bool segments) {
  Events before(planned, segments), after(measured, segments);
  EventComparison comparison;
  for (std::string_view expected = before.next(); !expected.empty(); expected = before.next()) {
    const std::string_view event = after.next();
    if (comparison.first_difference.empty() && event != expected) {
      comparison.first_difference = "event " + std::to_string(comparison.planned) + ": planned '" +
                                    std::string(expected) + "', measured '" +
                                    std::string(event.empty() ? "the end" : event) + "'";
    }
    comparison.planned += 1;
  }
  // What is left of the run are its tensors' ends.
  for (std::string_view event = after.next(); !event.empty() && comparison.first_difference.empty();
       event = after.next()) {
    if (takes_memory(event)) {
      comparison.first_difference = "after all that was planned, measured '" + std::string(event) + "'";
    }
  }
  return comparison;
}

std::string describe(const EventComparison& events) {
  return format_counted(events.planned, "event") + " of the allocator, " +
         (events.first_difference.empty() ? "each as planned" : "not as planned: " + events.first_difference);
}

}  // namespace fathom::ledger
