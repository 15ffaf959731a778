// What was measured on a device, for the terminal.
#pragma once

#include <string>

#include "plan/time/calibration.h"

namespace fathom::report {

std::string format_calibration(const plan::Calibration& calibration);

}  // namespace fathom::report
