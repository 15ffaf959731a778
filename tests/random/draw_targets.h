// Which modules of a random run have adapters, and which are trained beside them.
#pragma once

#include <optional>
#include <string>

#include "tests/random/draw_keys.h"

namespace fathom::random {

std::optional<std::string> draw_target_parameters(Draft& draft);
std::optional<std::string> draw_target_modules(Draft& draft);
// Modules without an adapter; of codes none can be trained.
std::optional<std::string> draw_modules_to_save(Draft& draft);

}  // namespace fathom::random
