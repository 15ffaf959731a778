// Which options a command looks at in each of its uses: what else is given is refused, never ignored.
#pragma once

#include <string>
#include <vector>

#include "app/raw_command.h"

namespace fathom::app {

// given: the names of the options and arguments on the command line, as the command declares them ("--gpu",
// "overrides"). Throws UsageError for one that the command does not look at beside the others.
void check_options(const std::string& command, const std::vector<std::string>& given, const RawCommand& raw);

}  // namespace fathom::app
