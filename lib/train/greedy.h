// The likeliest answers to several prompts at a time, with a cache of keys and values.
#pragma once

#include <cstdint>
#include <vector>

#include "model/decoder.h"
#include "schedule/answers.h"

namespace fathom::train {

struct Prompts {
  schedule::AnswerShape shape;
  // Of each row; for an encoder its source. Empty: a shape alone, of whose answers nothing is read (dry runs).
  std::vector<std::vector<int32_t>> rows = {};
  int64_t most = 1;  // tokens of an answer
  std::vector<int64_t> stop_ids = {};
};

// Each row's answer until a stop id, which is not returned, or `most` tokens. All rows begin with as many tokens as the
// shortest prompt has; a longer one is read on, a token at a time, while others are answered already, so that no row
// has padding that another would see. Whatever the answers, memory is that of the longest ones which the shape allows.
// Under autocast if the caller says so.
std::vector<std::vector<int32_t>> continue_greedily(model::Decoder& model, const Prompts& prompts);

}  // namespace fathom::train
