// A failing run made as small as it still fails.
#pragma once

#include <functional>

#include "tests/random/draw.h"

namespace fathom::random {

// Drops keys, shrinks data, adapters, weights and shape, one after the other and again, while `fails` holds of what is
// left; at most `most` questions are asked.
RandomRun minimise(RandomRun run, const std::function<bool(const RandomRun&)>& fails, int most = 200);

}  // namespace fathom::random
