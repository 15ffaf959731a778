// The page's style sheet and script, page.css and page.js beside this file, as they were when the program was built.
#pragma once

#include <string_view>

namespace fathom::page {

std::string_view page_style();
std::string_view page_script();

}  // namespace fathom::page
