// memory.json as tables: components, phases, the caching allocator, and further facts.
#pragma once

#include <string>

#include "base/json.h"

namespace fathom::page {

// Sections of the page; each is empty where memory.json has nothing for it.
std::string component_section(const Json& memory);
std::string phase_section(const Json& memory);
// "host", "time", "cost" and whatever else is an object of plain values: a key that ends in _bytes or _seconds is
// written as such.
std::string fact_section(const Json& memory);

}  // namespace fathom::page
