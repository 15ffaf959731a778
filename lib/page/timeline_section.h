// The memory of one step over time, predicted and measured, and what was alive at its peak.
#pragma once

#include <cstdint>
#include <string>

#include "page/run_record.h"

namespace fathom::page {

// Colours of components: classes c0 … c6 of page.css, in the order of memory::kComponents.
std::string component_class(memory::Component component);
// "optimizer states".
std::string component_title(memory::Component component);

// What the device holds, as a line in the picture.
struct Capacity {
  std::string name;   // "H100"
  int64_t bytes = 0;  // 0: unknown
};

// One section of the page with its data for the script; empty if the run left no timeline.
std::string timeline_section(const RunRecord& record, const Capacity& capacity);

}  // namespace fathom::page
