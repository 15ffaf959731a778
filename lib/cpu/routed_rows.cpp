// A counting sort, and sums in blocks.
#include "cpu/routed_rows.h"

#include <algorithm>
#include <array>
#include <vector>

#include "cpu/row_blocks.h"

namespace fathom::cpu {

void sort_by_expert(const int64_t* experts, int64_t pairs, int64_t number, int32_t* pair_of, int32_t* row_of,
                    int64_t* counts) {
  std::fill_n(counts, number, 0);
  for (int64_t pair = 0; pair < pairs; ++pair) ++counts[experts[pair]];
  std::vector<int64_t> next(static_cast<size_t>(number));
  for (int64_t expert = 1; expert < number; ++expert) {
    const auto at = static_cast<size_t>(expert);
    next[at] = next[at - 1] + counts[expert - 1];
  }
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const int64_t row = next[static_cast<size_t>(experts[pair])]++;
    pair_of[row] = static_cast<int32_t>(pair);
    row_of[pair] = static_cast<int32_t>(row);
  }
}

void sum_rows(Rows in, const int32_t* row_of, int64_t per_token, Rows out, int64_t first, int64_t last, int64_t width) {
  std::array<float, kBlock> sum, buffer;
  for (int64_t token = first; token < last; ++token) {
    for (int64_t column = 0; column < width; column += kBlock) {
      const int64_t n = std::min(kBlock, width - column);
      std::fill_n(sum.data(), n, 0.0F);
      for (int64_t k = 0; k < per_token; ++k) {
        const int64_t row = row_of[token * per_token + k];
        accumulate(read(in, row * width + column, n, buffer.data()), sum.data(), n);
      }
      float* values = target(out, token * width + column, buffer.data());
      std::copy_n(sum.data(), n, values);
      write(values, out, token * width + column, n);
    }
  }
}

void dot_rows(Rows x, Rows y, float* out, int64_t first, int64_t last, int64_t width) {
  std::array<float, kBlock> of_x, of_y;
  for (int64_t row = first; row < last; ++row) {
    float sum = 0;
    for (int64_t column = 0; column < width; column += kBlock) {
      const int64_t place = row * width + column, n = std::min(kBlock, width - column);
      sum += dot(read(x, place, n, of_x.data()), read(y, place, n, of_y.data()), n);
    }
    out[row] = sum;
  }
}

}  // namespace fathom::cpu
