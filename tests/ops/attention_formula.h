// Attention over rows or documents, under windows and with sinks, spelled out.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "tests/ops/compare.h"
#include "tests/ops/packed_row.h"

namespace fathom::ops {

// in: queries, keys, values, each [B, T, H, E], and sinks, where there are some. lengths: of documents in the one row,
// or of each row.
inline at::Tensor attention_formula(const std::vector<at::Tensor>& in, const std::vector<int64_t>& lengths,
                                    int64_t window) {
  const int64_t rows = in[0].size(0), tokens = in[0].size(1), heads = in[0].size(2), repeats = heads / in[1].size(2);
  const at::Tensor seen = at::zeros({tokens, tokens}, at::kBool);
  int64_t start = 0;
  for (const int64_t length : lengths) {
    at::Tensor block = at::ones({length, length}, at::kBool).tril_();
    if (window > 0) block.triu_(1 - window);
    seen.narrow(0, start, length).narrow(1, start, length).copy_(block);
    start += length;
  }
  const at::Tensor q = in[0].transpose(1, 2);
  const at::Tensor k = in[1].repeat_interleave(repeats, 2).transpose(1, 2);
  const at::Tensor v = in[2].repeat_interleave(repeats, 2).transpose(1, 2);
  at::Tensor scores = at::matmul(q, k.transpose(-1, -2)) / std::sqrt(static_cast<double>(q.size(-1)));
  scores = scores.masked_fill(seen.bitwise_not(), -std::numeric_limits<double>::infinity());
  if (in.size() > 3) scores = at::cat({scores, in[3].view({1, heads, 1, 1}).expand({rows, heads, tokens, 1})}, -1);
  return at::matmul(at::softmax(scores, -1).narrow(-1, 0, tokens), v).transpose(1, 2).flatten(2);
}

}  // namespace fathom::ops
