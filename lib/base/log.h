// Lines on stderr for people, shown as shown_in_terminal() shows them: the only way there. Results go to stdout by
// base/output.h.
#pragma once

#include <string_view>

namespace fathom {

void log_info(std::string_view line);     // "line"
void log_warning(std::string_view line);  // "warning: line", once for each line in the life of the process
void log_error(std::string_view line);    // "error: line"
// From now on only errors are shown, behind this name: of a process that is one of several for one run, of which
// another tells the rest.
void log_errors_alone(std::string_view name);
// True if stderr is a terminal that takes colour and progress lines (not TERM=dumb, NO_COLOR empty).
bool terminal_is_live();
// Shows a progress line in place (live terminals only); the next log line or progress line replaces it.
void log_progress(std::string_view line);

}  // namespace fathom
