// The clock of strftime_now: a moment as the clock on the wall shows it, and how Python's strftime writes it.
#pragma once

#include <chrono>
#include <string>

#include "jinja/meter.h"

namespace fathom::jinja {

std::chrono::local_seconds local_now();
// Python's datetime.strftime of a datetime without a time zone. Fails for more than a thousand bytes.
std::string format_date(std::chrono::local_seconds now, const std::string& format, Meter& meter);

}  // namespace fathom::jinja
