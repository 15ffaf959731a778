// Adafactor: second moments of a matrix kept as one number for each row and column (Shazeer and Stern 2018, arXiv
// 1804.04235), as transformers' Trainer sets it up: the learning rate of the schedule, no first moment.
//
// Letters are the paper's: R and C the moving means of the squared gradient over rows and columns, whose product over
// the mean of R stands for the matrix of second moments.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/traffic.h"
#include "optim/elements.h"
#include "optim/optimizer.h"

namespace fathom::optim {
namespace {

constexpr int64_t kColumnsPerTask = 256;
constexpr double kEpsilon = 1e-30;       // added to squares of gradients
constexpr double kClipThreshold = 1;     // of the root mean square of an update, in units of the learning rate
constexpr double kDecayExponent = -0.8;  // second moments decay by 1 - step^this

// How far an update of this root mean square must shrink.
double shrink(double sum_of_squares, int64_t elements) {
  return 1 / std::max(1.0, std::sqrt(sum_of_squares / static_cast<double>(elements)) / kClipThreshold);
}

// means = decay means + (1 - decay) (squares / count + epsilon).
void mix(float* means, double square_sum, int64_t count, double decay) {
  *means = static_cast<float>(decay * *means + (1 - decay) * (square_sum / static_cast<double>(count) + kEpsilon));
}

class Adafactor : public Optimizer {
 public:
  // States, all FP32: "exp_avg_sq_row.<parameter>" and "exp_avg_sq_col.<parameter>" of a matrix, "exp_avg_sq.…" of a
  // vector.
  Adafactor(const config::RunConfig& run, const std::vector<OptimizedParameter>& parameters, const StatesHome& home);

 private:
  struct Entry {
    explicit Entry(const Updated& updated) : parameter(updated.parameter), gradient(updated.gradient) {
      (updated.states.size() == 2 ? rows_N : squares) = updated.states.front();
      if (updated.states.size() == 2) columns_D = updated.states.back();
    }
    at::Tensor parameter, gradient;
    at::Tensor rows_N, columns_D;  // of a matrix
    at::Tensor squares;            // of a vector
  };
  struct Step {
    double rate, keep, decay, factor;
  };
  void update(std::span<const Updated> all, double learning_rate, const at::Tensor& gradient_factor) override;
  // Our kernels on the CPU read the gradient four times and take no memory beside two vectors.
  static void update_matrix(const Entry& entry, const Step& step);
  static void update_vector(const Entry& entry, const Step& step);
  // Elsewhere an update takes one FP32 tensor of the parameter's shape, and a second one for a gradient that is not
  // FP32.
  static void update_by_operators(const Entry& entry, const Step& step, const at::Tensor& gradient);

  double weight_decay_;
};

Adafactor::Adafactor(const config::RunConfig& run, const std::vector<OptimizedParameter>& parameters,
                     const StatesHome& home)
    : Optimizer(home), weight_decay_(run.weight_decay) {
  for (const OptimizedParameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    add_parameter(parameter);
    if (tensor.dim() == 2) {
      add_state("exp_avg_sq_row." + parameter.name, {tensor.size(0)}, at::kFloat);
      add_state("exp_avg_sq_col." + parameter.name, {tensor.size(1)}, at::kFloat);
    } else {
      add_state("exp_avg_sq." + parameter.name, tensor.sizes(), at::kFloat);
    }
  }
}

void Adafactor::update(std::span<const Updated> all, double learning_rate, const at::Tensor& gradient_factor) {
  Step step{learning_rate, 1, 1 - std::pow(static_cast<double>(steps()), kDecayExponent), 1};
  for (const Updated& each : all) {
    const Entry entry(each);
    step.keep = each.decays ? 1 - learning_rate * weight_decay_ : 1;
    if (!ops::has_kernel(entry.parameter)) {
      update_by_operators(entry, step, scaled_gradient(entry.gradient, gradient_factor));
      continue;
    }
    step.factor = factor_on_host(gradient_factor, entry.parameter);
    entry.squares.defined() ? update_vector(entry, step) : update_matrix(entry, step);
  }
}

void Adafactor::update_matrix(const Entry& entry, const Step& step) {
  const at::Tensor& parameter = entry.parameter;
  const at::Tensor gradient = entry.gradient.contiguous();
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::adafactor", ops::traffic(gradient, gradient.detach(), gradient.detach(),
                                                                  gradient.detach(), parameter, parameter.detach()));
  if (!parameter.is_cpu()) return;
  const int64_t rows = parameter.size(0), columns = parameter.size(1), rows_per_task = 1 + kElementsPerTask / columns;
  const double factor_squared = step.factor * step.factor;
  float *row_means = entry.rows_N.data_ptr<float>(), *column_means = entry.columns_D.data_ptr<float>();
  at::parallel_for(0, rows, rows_per_task, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const double squares = cpu::sum_of_squares(ops::rows(gradient), row * columns, (row + 1) * columns);
      mix(row_means + row, factor_squared * squares, columns, step.decay);
    }
  });
  std::vector<float> column_factors(columns), row_factors(rows);
  at::parallel_for(0, columns, kColumnsPerTask, [&](int64_t first, int64_t last) {
    cpu::column_squares(ops::rows(gradient), rows, columns, column_factors.data(), first, last);
    for (int64_t column = first; column < last; ++column) {
      mix(column_means + column, factor_squared * column_factors[column], rows, step.decay);
      column_factors[column] = 1 / std::sqrt(column_means[column]);
    }
  });
  const double mean = std::accumulate(row_means, row_means + rows, 0.0) / static_cast<double>(rows);
  std::vector<double> squares(rows);
  at::parallel_for(0, rows, rows_per_task, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      row_factors[row] = static_cast<float>(step.factor * std::sqrt(mean / row_means[row]));
      squares[row] = cpu::scaled_row_squares(ops::rows(gradient), column_factors.data(), row, columns) *
                     row_factors[row] * row_factors[row];
    }
  });
  const double sum = std::accumulate(squares.begin(), squares.end(), 0.0);
  const double rate = step.rate * shrink(sum, parameter.numel());
  for (float& factor : row_factors) factor = static_cast<float>(factor * rate);
  at::parallel_for(0, rows, rows_per_task, [&](int64_t first, int64_t last) {
    cpu::factored_update(ops::rows(parameter), ops::rows(gradient), step.keep, row_factors.data(),
                         column_factors.data(), columns, first, last);
  });
}

// Vectors are short: one thread.
void Adafactor::update_vector(const Entry& entry, const Step& step) {
  const at::Tensor& parameter = entry.parameter;
  const at::Tensor gradient = entry.gradient.contiguous();
  RECORD_USER_SCOPE_WITH_INPUTS(
      "fathom::adafactor", ops::traffic(gradient, gradient.detach(), parameter, parameter.detach(), entry.squares));
  if (!parameter.is_cpu()) return;
  float* squares = entry.squares.data_ptr<float>();
  const int64_t elements = parameter.numel();
  const double sum = cpu::update_squares(ops::rows(gradient), step.factor, step.decay, kEpsilon, squares, 0, elements);
  const double rate = step.rate * step.factor * shrink(sum, elements);
  cpu::unfactored_update(ops::rows(parameter), ops::rows(gradient), step.keep, rate, squares, 0, elements);
}

void Adafactor::update_by_operators(const Entry& entry, const Step& step, const at::Tensor& gradient) {
  const auto mean_square = [&](int64_t dimension) {
    return at::linalg_vector_norm(gradient, 2, dimension)
        .square_()
        .div_(static_cast<double>(gradient.size(dimension)))
        .add_(kEpsilon);
  };
  at::Tensor change;
  if (entry.squares.defined()) {
    entry.squares.mul_(step.decay).add_(gradient.square().add_(kEpsilon), 1 - step.decay);
    change = entry.squares.rsqrt();
  } else {
    entry.rows_N.mul_(step.decay).add_(mean_square(1), 1 - step.decay);
    entry.columns_D.mul_(step.decay).add_(mean_square(0), 1 - step.decay);
    change = (entry.rows_N / entry.rows_N.mean()).rsqrt_().unsqueeze(1) * entry.columns_D.rsqrt().unsqueeze(0);
  }
  change.mul_(gradient);
  const double root = std::sqrt(static_cast<double>(change.numel()));
  const at::Tensor root_mean_square = at::linalg_vector_norm(change).div_(root * kClipThreshold);
  change.div_(root_mean_square.clamp_min_(1)).mul_(-step.rate).add_(entry.parameter, step.keep);
  entry.parameter.copy_(change);
}

}  // namespace

std::unique_ptr<Optimizer> make_adafactor(const config::RunConfig& run,
                                          const std::vector<OptimizedParameter>& parameters, const StatesHome& home) {
  return std::make_unique<Adafactor>(run, parameters, home);
}

}  // namespace fathom::optim
