// The page's style sheet and scripts, the files beside this one, as they were when the program was built.
#pragma once

#include <string_view>

namespace fathom::page {

std::string_view page_style();
std::string_view timeline_script();
std::string_view lines_script();

}  // namespace fathom::page
