// Python's two ways to fill in a text: "%s" % values and "{}".format(values).
#pragma once

#include <string>
#include <string_view>

#include "jinja/filters.h"
#include "jinja/value.h"

namespace fathom::jinja {

// values: a tuple, a mapping for %(name)s, or one value. Conversions s, r, d, i, u, x, X, o, f, F, e, E, g, G and %%,
// with flags, width and precision.
std::string format_percent(const std::string& format, const Value& values, Meter& meter);
// Fields {}, {0}, {name}, {name.key}, {name[0]}, with !s, !r and format specs of text and numbers.
std::string format_field(const Value& value, std::string_view spec, Meter& meter);  // "{:spec}"
std::string format_braces(const std::string& format, const CallArguments& arguments, Meter& meter);

}  // namespace fathom::jinja
