// Attention's memory and time over lengths as a table for the terminal.
#pragma once

#include <string>
#include <vector>

#include "play/attention_curve.h"

namespace fathom::play {

std::string format_attention(const std::vector<AttentionPoint>& points);

}  // namespace fathom::play
