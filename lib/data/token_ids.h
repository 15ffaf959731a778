// Lines of token ids: labels and masks, and the padding that is cut off.
#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.h"
#include "data/line.h"
#include "data/read.h"

namespace fathom::data {

// input_ids with labels, or with what masks leave of them. Throws Error for masks that contradict each other.
Example read_token_ids(const Line& line, const DatasetOptions& options);

struct TokenPair {
  std::vector<int32_t> source, target;
};
// For an encoder and decoder: labels are the target, and end with -100 where they are padded.
TokenPair read_token_pair(const Line& line);

}  // namespace fathom::data
