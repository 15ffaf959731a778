// Attention's memory and time over lengths as a table for the terminal.
#pragma once

#include <string>
#include <vector>

#include "plan/attention_curve.h"

namespace fathom::report {

std::string format_attention(const std::vector<plan::AttentionPoint>& points);

}  // namespace fathom::report
