// Line by line.
#include "ledger/compare_traces.h"

#include <fstream>

#include "base/error.h"
#include "base/numbers.h"

namespace fathom::ledger {
namespace {

// Reads the events that count.
class Events {
 public:
  Events(const std::filesystem::path& file, bool segments) : lines_(file), segments_(segments) {
    if (!lines_) throw Error("the trace " + file.string() + " cannot be read");
  }
  // Without the address of a segment; empty: there are no more.
  std::string next() {
    for (std::string line; std::getline(lines_, line);) {
      if (!line.starts_with("segment_")) return line;
      if (segments_) return line.substr(0, line.rfind(' '));
    }
    return "";
  }

 private:
  std::ifstream lines_;
  bool segments_;
};

bool takes_memory(const std::string& event) {
  return event.starts_with("alloc ") || event.starts_with("segment_alloc ") || event.starts_with("segment_map ");
}

}  // namespace

EventComparison compare_traces(const std::filesystem::path& planned, const std::filesystem::path& measured,
                               bool segments) {
  Events before(planned, segments), after(measured, segments);
  EventComparison comparison;
  for (std::string expected = before.next(); !expected.empty(); expected = before.next()) {
    const std::string event = after.next();
    if (comparison.first_difference.empty() && event != expected) {
      comparison.first_difference = "event " + std::to_string(comparison.planned) + ": planned '" + expected +
                                    "', measured '" + (event.empty() ? "the end" : event) + "'";
    }
    comparison.planned += 1;
  }
  // What is left of the run are its tensors' ends.
  for (std::string event = after.next(); !event.empty() && comparison.first_difference.empty(); event = after.next()) {
    if (takes_memory(event)) comparison.first_difference = "after all that was planned, measured '" + event + "'";
  }
  return comparison;
}

std::string describe(const EventComparison& events) {
  return format_counted(events.planned, "event") + " of the allocator, " +
         (events.first_difference.empty() ? "each as planned" : "not as planned: " + events.first_difference);
}

}  // namespace fathom::ledger
