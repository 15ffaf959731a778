// An example as people read it: stretches of text that count for the loss, or do not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "tokenizer/tokenizer.h"

namespace fathom::data {

struct Segment {
  std::string text;  // what the tokens add to the text; special tokens by their names
  bool counts = false;
  int64_t tokens = 0;
};

// The first token of an example never counts: nothing comes before it that could foretell it. tokenizer: null writes
// ids.
std::vector<Segment> segments_of(const Example& example, const tokenizer::Tokenizer* tokenizer);

}  // namespace fathom::data
