// Blocks of columns go down the rows; what the last rows made of B * x stays in a ring.
#include "cpu/short_convolution.h"

#include <algorithm>
#include <vector>

#include "cpu/row_blocks.h"

namespace fathom::cpu {
namespace {

FATHOM_CLONES void multiply(const float* a, const float* b, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
}

FATHOM_CLONES void add_product(const float* a, const float* b, float* sum, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += a[i] * b[i];
}

// A block of `n` columns of the parts, from `column` on.
class Block {
 public:
  Block(Rows parts, Taps taps, int64_t column, int64_t n, int64_t width)
      : parts_(parts), count_(taps.count), column_(column), n_(n), width_(width), taps_(count_ * n), made_(count_ * n) {
    std::vector<float> buffer(count_ * n);
    const float* its = read(taps.rows, column * count_, count_ * n, buffer.data());
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < count_; ++j) taps_[(count_ - 1 - j) * n + i] = its[i * count_ + j];
    }
  }

  // Of how many rows back, 0 of the row itself.
  const float* tap(int64_t back) const { return taps_.data() + back * n_; }
  // B * x of the row, which is there for as many rows as there are taps.
  void add_row(int64_t row) { multiply(part(row, 0, first_), part(row, 2, second_), slot(row), n_); }
  const float* made(int64_t row) { return slot(row); }
  // The sum over taps, of rows that were added.
  void convolve(int64_t row, int64_t position, float* sum) {
    std::fill_n(sum, n_, 0.0F);
    for (int64_t back = 0; back <= std::min(position, count_ - 1); ++back) {
      add_product(tap(back), made(row - back), sum, n_);
    }
  }
  // 0: B, 1: C, 2: x.
  const float* part(int64_t row, int64_t which, float* buffer) const {
    return read(parts_, place(row, which), n_, buffer);
  }
  int64_t place(int64_t row, int64_t which) const { return (3 * row + which) * width_ + column_; }

 private:
  float* slot(int64_t row) { return made_.data() + row % count_ * n_; }

  Rows parts_;
  int64_t count_, column_, n_, width_;
  std::vector<float> taps_, made_;
  float first_[kBlock], second_[kBlock];
};

}  // namespace

void short_convolution(Rows parts, Taps taps, const Texts& texts, Rows out, int64_t first, int64_t last,
                       int64_t width) {
  float sum[kBlock], gate[kBlock], buffer[kBlock];
  for (int64_t column = 0; column < width; column += kBlock) {
    const int64_t n = std::min(kBlock, width - column);
    Block block(parts, taps, column, n, width);
    for (int64_t row = std::max<int64_t>(0, first - taps.count + 1); row < last; ++row) {
      block.add_row(row);
      if (row < first) continue;
      block.convolve(row, texts.position(row), sum);
      float* to = target(out, row * width + column, buffer);
      multiply(block.part(row, 1, gate), sum, to, n);
      write(to, out, row * width + column, n);
    }
  }
}

void short_convolution_backward(Rows grad_out, Rows parts, Taps taps, const Texts& texts, Rows grad_parts,
                                float* grad_taps, int64_t rows, int64_t first, int64_t last, int64_t width) {
  float sum[kBlock], gate[kBlock], gradient[kBlock], of_sum[kBlock], buffer[kBlock];
  for (int64_t column = first; column < last; column += kBlock) {
    const int64_t n = std::min(kBlock, last - column), count = taps.count;
    Block block(parts, taps, column, n, width);
    std::vector<float> of_made(count * n),
        of_taps(count * n);  // of B * x, in a ring; of taps, by how far they look back
    const auto write_product = [&](const float* a, const float* b, int64_t row, int64_t which) {
      const int64_t place = block.place(row, which);
      float* to = target(grad_parts, place, buffer);
      multiply(a, b, to, n);
      write(to, grad_parts, place, n);
    };
    // No later row reads this one.
    const auto finish = [&](int64_t row) {
      float* its = of_made.data() + row % count * n;
      write_product(its, block.part(row, 2, gate), row, 0);
      write_product(its, block.part(row, 0, gate), row, 2);
      std::fill_n(its, n, 0.0F);
    };
    for (int64_t row = 0; row < rows; ++row) {
      if (row >= count) finish(row - count);
      block.add_row(row);
      const int64_t position = texts.position(row);
      block.convolve(row, position, sum);
      const float* upstream = read(grad_out, row * width + column, n, gradient);
      write_product(upstream, sum, row, 1);
      multiply(upstream, block.part(row, 1, gate), of_sum, n);
      for (int64_t back = 0; back <= std::min(position, count - 1); ++back) {
        add_product(block.tap(back), of_sum, of_made.data() + (row - back) % count * n, n);
        if (grad_taps != nullptr) add_product(of_sum, block.made(row - back), of_taps.data() + back * n, n);
      }
    }
    for (int64_t row = std::max<int64_t>(0, rows - count); row < rows; ++row) finish(row);
    if (grad_taps == nullptr) continue;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < count; ++j) grad_taps[(column + i) * count + j] = of_taps[(count - 1 - j) * n + i];
    }
  }
}

}  // namespace fathom::cpu
