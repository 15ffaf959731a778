// Texts with fields to fill in: "%s of %d" | format(…) and "{} of {}".format(…), in the little that templates use.
#pragma once

#include <string>

#include "jinja/arguments.h"

namespace fathom::jinja {

// Fields %s, %d, %02d (zeros up to a width of one digit), %f, %.2f and %%.
std::string format_percent(const std::string& format, const CallArguments& arguments, Meter& meter);
// Fields {}, and {{ and }} for braces.
std::string format_braces(const std::string& format, const CallArguments& arguments, Meter& meter);

}  // namespace fathom::jinja
