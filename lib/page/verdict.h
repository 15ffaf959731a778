// Whether the run fits, first of all: what it needs beside what the device has.
#pragma once

#include <string>

#include "base/json.h"
#include "page/timeline_section.h"

namespace fathom::page {

// What the figures are held against: the GPU's memory, the machine's, or memory_budget. bytes 0: not known.
Capacity capacity_of(const Json& memory);

// One section of the page with a bar from 0 to what is needed or there; empty where either is not known.
std::string verdict_section(const Json& memory);

}  // namespace fathom::page
