// What a random run is of: a model's shape and the lengths of its data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_value.h"
#include "tests/dice.h"
#include "tests/random/draw.h"

namespace fathom::random {

using fathom::testing::Dice;

// A config.json.
Json draw_model(Dice& dice);
// The same as the text part of a model that sees pictures, with the token ids of pictures beyond the vocabulary; null
// for a family that is no such part.
Json in_whole(const Json& model);
// The names of its layers' matrices, as target_modules takes them: "q_proj".
std::vector<std::string> projections_of(const Json& model);

// Lengths as data have them: alike, uniform, with a long tail, of two sizes, with one that is longer than all.
std::vector<Sample> draw_samples(int64_t count, int64_t longest, Dice& dice);

}  // namespace fathom::random
