// The mean of stored rows, read where they are mapped: nothing but one row is ever made.
#include "model/added_rows.h"

#include <ATen/ATen.h>

#include <vector>

#include "base/error.h"

namespace fathom::model {
namespace {

template <typename Number>
std::vector<float> mean_row(const std::byte* bytes, int64_t rows, int64_t width) {
  const auto* numbers = reinterpret_cast<const Number*>(bytes);
  std::vector<double> sum(static_cast<size_t>(width));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < width; ++i) sum[i] += static_cast<double>(static_cast<float>(numbers[row * width + i]));
  }
  std::vector<float> mean;
  for (const double each : sum) mean.push_back(static_cast<float>(each / static_cast<double>(rows)));
  return mean;
}

std::vector<float> mean_row(const weights::ModelFolder::Entry& stored) {
  const int64_t rows = stored.info->shape.at(0), width = stored.info->shape.at(1);
  switch (stored.info->dtype) {
    case DType::kF64:
      return mean_row<double>(stored.data(), rows, width);
    case DType::kF32:
      return mean_row<float>(stored.data(), rows, width);
    case DType::kF16:
      return mean_row<c10::Half>(stored.data(), rows, width);
    case DType::kBF16:
      return mean_row<c10::BFloat16>(stored.data(), rows, width);
    default:
      throw Error(stored.info->name + " is stored as " + std::string(safetensors_name(stored.info->dtype)),
                  "weights must be F64, F32, F16 or BF16");
  }
}

}  // namespace

void fill_added_rows(const at::Tensor& rows_ND, const weights::ModelFolder::Entry& stored) {
  std::vector<float> mean_D = mean_row(stored);
  const at::Tensor mean = at::from_blob(mean_D.data(), {static_cast<int64_t>(mean_D.size())}, at::kFloat);
  for (int64_t row = 0; row < rows_ND.size(0); ++row) rows_ND[row].copy_(mean);
}

}  // namespace fathom::model
