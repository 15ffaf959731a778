// Blocks of columns go down the rows; what the last rows give to the sums over taps stays in a ring.
#include "cpu/short_convolution.h"

#include <algorithm>
#include <vector>

#include "cpu/exponential.h"
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

FATHOM_CLONES void silu(const float* x, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] / (1.0F + exponential(-x[i]));
}

FATHOM_CLONES void silu_backward(const float* upstream, const float* x, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float sigmoid = 1.0F / (1.0F + exponential(-x[i]));
    out[i] = upstream[i] * sigmoid * (1.0F + x[i] * (1.0F - sigmoid));
  }
}

// A block of `n` columns from `column` on: its taps, and what they multiply of as many rows as there are taps.
class Block {
 public:
  Block(Taps taps, int64_t column, int64_t n) : count_(taps.count), n_(n), taps_(count_ * n), made_(count_ * n) {
    std::vector<float> buffer(count_ * n);
    const float* its = read(taps.rows, column * count_, count_ * n, buffer.data());
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < count_; ++j) taps_[(count_ - 1 - j) * n + i] = its[i * count_ + j];
    }
  }

  // Of how many rows back, 0 of the row itself.
  const float* tap(int64_t back) const { return taps_.data() + back * n_; }
  float* slot(int64_t row) { return made_.data() + row % count_ * n_; }
  // The sum over taps, of rows whose slots are filled.
  void convolve(int64_t row, int64_t position, float* sum) {
    std::fill_n(sum, n_, 0.0F);
    for (int64_t back = 0; back <= std::min(position, count_ - 1); ++back) {
      add_product(tap(back), slot(row - back), sum, n_);
    }
  }

 private:
  int64_t count_, n_;
  std::vector<float> taps_, made_;
};

// What goes back through a block: to what its taps multiply, in a ring, and to the taps, by how far they look back.
class BlockGradient {
 public:
  BlockGradient(Block& block, int64_t count, int64_t n)
      : block_(block), count_(count), n_(n), of_made_(count * n), of_taps_(count * n) {}

  float* of_slot(int64_t row) { return of_made_.data() + row % count_ * n_; }
  void add(const float* of_sum, int64_t row, int64_t position, bool of_taps) {
    for (int64_t back = 0; back <= std::min(position, count_ - 1); ++back) {
      add_product(block_.tap(back), of_sum, of_slot(row - back), n_);
      if (of_taps) add_product(of_sum, block_.slot(row - back), of_taps_.data() + back * n_, n_);
    }
  }
  void write_taps(float* grad_taps, int64_t column) const {
    for (int64_t i = 0; i < n_; ++i) {
      for (int64_t j = 0; j < count_; ++j) grad_taps[(column + i) * count_ + j] = of_taps_[(count_ - 1 - j) * n_ + i];
    }
  }
  // finish(row), where no later row reads this one.
  template <typename Finish>
  void finish_before(int64_t row, const Finish& finish) {
    if (row < count_) return;
    finish(row - count_);
    std::fill_n(of_slot(row - count_), n_, 0.0F);
  }

 private:
  Block& block_;
  int64_t count_, n_;
  std::vector<float> of_made_, of_taps_;
};

// Rows of B, C and x: 0, 1 and 2.
struct Parts {
  Rows rows;
  int64_t width = 0;
  int64_t place(int64_t row, int64_t which, int64_t column) const { return (3 * row + which) * width + column; }
  const float* part(int64_t row, int64_t which, int64_t column, int64_t n, float* buffer) const {
    return read(rows, place(row, which, column), n, buffer);
  }
};

}  // namespace

void short_convolution(Rows parts, Taps taps, const Texts& texts, Rows out, int64_t first, int64_t last,
                       int64_t width) {
  float sum[kBlock], one[kBlock], other[kBlock], buffer[kBlock];
  const Parts its{parts, width};
  for (int64_t column = 0; column < width; column += kBlock) {
    const int64_t n = std::min(kBlock, width - column);
    Block block(taps, column, n);
    for (int64_t row = std::max<int64_t>(0, first - taps.count + 1); row < last; ++row) {
      multiply(its.part(row, 0, column, n, one), its.part(row, 2, column, n, other), block.slot(row), n);
      if (row < first) continue;
      block.convolve(row, texts.position(row), sum);
      float* to = target(out, row * width + column, buffer);
      multiply(its.part(row, 1, column, n, one), sum, to, n);
      write(to, out, row * width + column, n);
    }
  }
}

void short_convolution_backward(Rows grad_out, Rows parts, Taps taps, const Texts& texts, Rows grad_parts,
                                float* grad_taps, int64_t rows, int64_t first, int64_t last, int64_t width) {
  float sum[kBlock], one[kBlock], other[kBlock], gradient[kBlock], of_sum[kBlock], buffer[kBlock];
  const Parts its{parts, width};
  for (int64_t column = first; column < last; column += kBlock) {
    const int64_t n = std::min(kBlock, last - column), count = taps.count;
    Block block(taps, column, n);
    BlockGradient back(block, count, n);
    const auto write_product = [&](const float* a, const float* b, int64_t row, int64_t which) {
      const int64_t place = its.place(row, which, column);
      float* to = target(grad_parts, place, buffer);
      multiply(a, b, to, n);
      write(to, grad_parts, place, n);
    };
    const auto finish = [&](int64_t row) {
      write_product(back.of_slot(row), its.part(row, 2, column, n, one), row, 0);
      write_product(back.of_slot(row), its.part(row, 0, column, n, one), row, 2);
    };
    for (int64_t row = 0; row < rows; ++row) {
      back.finish_before(row, finish);
      multiply(its.part(row, 0, column, n, one), its.part(row, 2, column, n, other), block.slot(row), n);
      const int64_t position = texts.position(row);
      block.convolve(row, position, sum);
      const float* upstream = read(grad_out, row * width + column, n, gradient);
      write_product(upstream, sum, row, 1);
      multiply(upstream, its.part(row, 1, column, n, one), of_sum, n);
      back.add(of_sum, row, position, grad_taps != nullptr);
    }
    for (int64_t row = std::max<int64_t>(0, rows - count); row < rows; ++row) finish(row);
    if (grad_taps != nullptr) back.write_taps(grad_taps, column);
  }
}

void silu_convolution(Rows in, Taps taps, const Texts& texts, Rows out, int64_t first, int64_t last, int64_t width) {
  float sum[kBlock], buffer[kBlock];
  for (int64_t column = 0; column < width; column += kBlock) {
    const int64_t n = std::min(kBlock, width - column);
    Block block(taps, column, n);
    for (int64_t row = std::max<int64_t>(0, first - taps.count + 1); row < last; ++row) {
      const int64_t place = row * width + column;
      std::copy_n(read(in, place, n, buffer), n, block.slot(row));
      if (row < first) continue;
      block.convolve(row, texts.position(row), sum);
      float* to = target(out, place, buffer);
      silu(sum, to, n);
      write(to, out, place, n);
    }
  }
}

void silu_convolution_backward(Rows grad_out, Rows in, Taps taps, const Texts& texts, Rows grad_in, float* grad_taps,
                               int64_t rows, int64_t first, int64_t last, int64_t width) {
  float sum[kBlock], gradient[kBlock], of_sum[kBlock], buffer[kBlock];
  for (int64_t column = first; column < last; column += kBlock) {
    const int64_t n = std::min(kBlock, last - column), count = taps.count;
    Block block(taps, column, n);
    BlockGradient back(block, count, n);
    const auto finish = [&](int64_t row) {
      float* to = target(grad_in, row * width + column, buffer);
      std::copy_n(back.of_slot(row), n, to);
      write(to, grad_in, row * width + column, n);
    };
    for (int64_t row = 0; row < rows; ++row) {
      back.finish_before(row, finish);
      const int64_t place = row * width + column, position = texts.position(row);
      std::copy_n(read(in, place, n, buffer), n, block.slot(row));
      block.convolve(row, position, sum);
      silu_backward(read(grad_out, place, n, gradient), sum, of_sum, n);
      back.add(of_sum, row, position, grad_taps != nullptr);
    }
    for (int64_t row = std::max<int64_t>(0, rows - count); row < rows; ++row) finish(row);
    if (grad_taps != nullptr) back.write_taps(grad_taps, column);
  }
}

}  // namespace fathom::cpu
