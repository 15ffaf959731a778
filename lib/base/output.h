// Results on stdout: the only way there, so that no text from outside reaches a terminal as it is. Lines for people go
// to stderr by base/log.h.
#pragma once

#include <string_view>

namespace fathom {

// Writes text at once, shown as shown_in_terminal() shows it, into files and pipes too: they are read in terminals
// later. JSON stays the same JSON.
void print(std::string_view text);
// The same, darker where stdout takes colour.
void print_dim(std::string_view text);
// Text that is itself the result, as what a model generates: byte for byte into a file or a pipe; a terminal is shown
// it as by print().
void print_verbatim(std::string_view text);
// From now on nothing is written: of a process that is one of several for one run.
void print_nothing();
// Whether all of it was written so far.
bool all_is_printed();
// Whether stdout is a terminal that takes colour (not TERM=dumb, NO_COLOR empty).
bool output_takes_colour();

}  // namespace fathom
