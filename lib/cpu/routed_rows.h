// Sorts rows of tokens by the experts that they go to, and adds up what the experts of a token made, for CPUs.
#pragma once

#include <cstdint>

#include "cpu/kernels.h"

namespace fathom::cpu {

// The pairs [0, pairs) of a token and an expert, sorted by experts[pair], those of an expert in their order:
// pair_of[row] and row_of[pair]. counts[expert]: how many there are, of `number` experts.
void sort_by_expert(const int64_t* experts, int64_t pairs, int64_t number, int32_t* pair_of, int32_t* row_of,
                    int64_t* counts);

// out[t] = sum over k of in[row_of[t * per_token + k]], in the order of k, in FP32; for tokens [first, last) of
// `width`.
void sum_rows(Rows in, const int32_t* row_of, int64_t per_token, Rows out, int64_t first, int64_t last, int64_t width);

// out[r] = the sum over columns of x[r] * y[r], in FP32, for rows [first, last) of `width`.
void dot_rows(Rows x, Rows y, float* out, int64_t first, int64_t last, int64_t width);

}  // namespace fathom::cpu
