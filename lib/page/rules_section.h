// Rules of thumb against the truth, with bars on a logarithmic axis.
#pragma once

#include <string>

#include "base/json.h"

namespace fathom::page {

// One section of the page, the rules that are meant for such a run first; empty where memory.json has none.
std::string rules_section(const Json& memory);

}  // namespace fathom::page
