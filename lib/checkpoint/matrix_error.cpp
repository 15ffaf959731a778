// Sums in FP64, row by row.
#include "checkpoint/matrix_error.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "footprint/quantized_part_size.h"
#include "ops/quantized/quantized_rows.h"

namespace fathom::checkpoint {
namespace {

struct RowSums {
  double signal = 0, noise = 0;
};

double decibels(double signal, double noise) {
  if (noise == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(signal / noise);
}

// Whether noise_a / signal_a is above noise_b / signal_b.
bool is_worse(double signal_a, double noise_a, double signal_b, double noise_b) {
  return noise_a * signal_b > noise_b * signal_a;
}

std::vector<RowSums> sums_of_rows(const at::Tensor& stored_RD, const at::Tensor& read_RD) {
  const at::Tensor wide_RD = stored_RD.to(at::kFloat).contiguous();
  const int64_t columns = wide_RD.size(1);
  const auto *before = wide_RD.const_data_ptr<float>(), *after = read_RD.const_data_ptr<float>();
  std::vector<RowSums> sums(static_cast<size_t>(wide_RD.size(0)));
  at::parallel_for(0, wide_RD.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      RowSums& sum = sums[static_cast<size_t>(row)];
      for (int64_t place = row * columns; place < (row + 1) * columns; ++place) {
        const double value = before[place], difference = value - after[place];
        sum.signal += value * value;
        sum.noise += difference * difference;
      }
    }
  });
  return sums;
}

}  // namespace

double MatrixError::rmse() const { return values == 0 ? 0 : std::sqrt(noise / static_cast<double>(values)); }
double MatrixError::signal_to_noise() const { return decibels(signal, noise); }
double MatrixError::worst_signal_to_noise() const { return decibels(worst_signal, worst_noise); }

void MatrixError::add(const MatrixError& other) {
  values += other.values;
  signal += other.signal;
  noise += other.noise;
  if (!worst_name.empty() && !is_worse(other.worst_signal, other.worst_noise, worst_signal, worst_noise)) return;
  worst_name = other.worst_name;
  worst_row = other.worst_row;
  worst_signal = other.worst_signal;
  worst_noise = other.worst_noise;
}

MatrixError error_of(const std::string& name, const at::Tensor& stored_ND, const ops::QuantizedMatrix& matrix) {
  MatrixError all;
  all.name = name;
  const int64_t step = footprint::quantized_part_rows(matrix.rows, matrix.columns, /*on_gpu=*/false);
  for (int64_t first = 0; first < matrix.rows; first += step) {
    const int64_t count = std::min(step, matrix.rows - first);
    const auto sums = sums_of_rows(stored_ND.narrow(0, first, count), ops::dequantize_rows(matrix, first, count));
    for (int64_t row = 0; row < count; ++row) {
      const auto [signal, noise] = sums[static_cast<size_t>(row)];
      all.add({"", matrix.columns, signal, noise, name, first + row, signal, noise});
    }
  }
  return all;
}

}  // namespace fathom::checkpoint
