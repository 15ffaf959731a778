// Looks up each tensor of a matrix, and checks all that a product would trust.
#include "quant/stored_matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "base/error.h"
#include "quant/folder_tensors.h"
#include "quant/mxfp4.h"
#include "quant/nf4.h"
#include "quant/quant_state.h"
#include "quant/scales.h"

namespace fathom::quant {
namespace {

constexpr const char* kRemedy = "quantize the model again, or download the folder again";

std::string text_of(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

float float_of_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

float float_of_f16(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction != 0 ? NAN : sign * HUGE_VALF;
  return sign * (exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                               : std::ldexp(static_cast<float>(fraction | 1024), exponent - 25));
}

class Finder {
 public:
  Finder(const weights::ModelFolder& folder, const FolderFormat& format, const std::string& name, int64_t rows,
         int64_t columns, int64_t matrices)
      : folder_(folder), format_(format), name_(name), rows_(rows), columns_(columns), matrices_(matrices) {
    for (StoredTensor& tensor : tensors_of_matrix(format, name, rows, columns, matrices)) {
      expected_.push_back(std::move(tensor));
    }
  }

  StoredMatrix find() {
    const Scheme scheme = format_.scheme;
    matrix_.codes = require(expected_[0]).data();
    if (is_fp8(scheme)) refuse_nan_codes();
    if (is_nf4(scheme)) {
      find_nf4();
    } else if (is_int4(scheme)) {
      read_scales(expected_[1], {expected_[1].shape});
      find_shape();
    } else if (is_mxfp4(scheme)) {
      read_exponents();
    } else if (format_.library == Library::kBlockFp8) {
      read_scales(expected_[1], {expected_[1].shape});
      give_to_rows();
    } else if (format_.library == Library::kBitsAndBytes) {
      read_scales(expected_[1], {expected_[1].shape});
      for (float& scale : matrix_.scales) scale /= 127;
      find_weight_format();
    } else {
      read_row_scales();
    }
    return std::move(matrix_);
  }

 private:
  using Entry = weights::ModelFolder::Entry;

  std::string where(const std::string& name) const { return folder_.path().string() + ": tensor " + name; }
  [[noreturn]] void refuse(const std::string& name, const std::string& what) const {
    throw Error(where(name) + " " + what, kRemedy);
  }
  void check_there(const std::optional<Entry>& entry, const StoredTensor& expected) const {
    if (entry) return;
    const auto plain = folder_.find(name_);
    const std::string found =
        plain ? ", which stores " + name_ + " as " + std::string(safetensors_name(plain->info->dtype)) : "";
    throw Error(folder_.path().string() + ": there is no tensor " + expected.name + found + "; config.json says " +
                    std::string(name_of(format_.scheme)),
                (is_of_experts_alone(format_.scheme) ? "all experts must be quantized alike. "
                                                     : "all projections of layers must be quantized alike. ") +
                    std::string(kRemedy));
  }
  Entry require_one_of(const StoredTensor& expected, const std::vector<DType>& types,
                       const std::vector<std::vector<int64_t>>& shapes) {
    const auto entry = folder_.find(expected.name);
    check_there(entry, expected);
    const weights::TensorInfo& info = *entry->info;
    if (std::find(types.begin(), types.end(), info.dtype) == types.end()) {
      refuse(expected.name, "is stored as " + std::string(safetensors_name(info.dtype)) + ", expected " +
                                std::string(safetensors_name(expected.dtype)) + " for " +
                                std::string(name_of(format_.scheme)));
    }
    if (std::find(shapes.begin(), shapes.end(), info.shape) == shapes.end()) {
      refuse(expected.name, "is " + text_of(info.shape) + ", but " + name_ + " [" + std::to_string(rows_) + ", " +
                                std::to_string(columns_) + "] in " + std::string(name_of(format_.scheme)) +
                                " makes it " + text_of(expected.shape));
    }
    matrix_.tensors.push_back(expected.name);
    return *entry;
  }
  Entry require(const StoredTensor& expected) { return require_one_of(expected, {expected.dtype}, {expected.shape}); }

  template <typename T>
  static std::vector<T> values_of(const Entry& entry) {
    std::vector<T> values(static_cast<size_t>(entry.info->bytes) / sizeof(T));
    std::memcpy(values.data(), entry.data(), values.size() * sizeof(T));
    return values;
  }
  static std::vector<float> floats_of(const Entry& entry) {
    if (entry.info->dtype == DType::kF32) return values_of<float>(entry);
    std::vector<float> values;
    for (const uint16_t bits : values_of<uint16_t>(entry)) {
      values.push_back(entry.info->dtype == DType::kBF16 ? float_of_bf16(bits) : float_of_f16(bits));
    }
    return values;
  }

  void refuse_nan_codes() const {
    const auto* codes = reinterpret_cast<const uint8_t*>(matrix_.codes);
    const bool sound = std::none_of(codes, codes + rows_ * columns_, [](uint8_t code) { return (code & 127) == 127; });
    if (!sound) refuse(name_, "holds a NaN");
  }

  void check_scales(const std::string& name, std::span<const float> scales) const {
    for (const float scale : scales) {
      if (!(scale >= 0 && std::isfinite(scale))) {
        refuse(name, "holds the scale " + std::to_string(scale) + "; expected finite ones, not below 0");
      }
    }
  }
  // Libraries store scales in the type that the weight had.
  void read_scales(const StoredTensor& expected, const std::vector<std::vector<int64_t>>& shapes) {
    matrix_.scales = floats_of(require_one_of(expected, {DType::kF32, DType::kBF16, DType::kF16}, shapes));
    check_scales(expected.name, matrix_.scales);
  }
  void read_exponents() {
    matrix_.scale_codes = values_of<uint8_t>(require(expected_[1]));
    for (const uint8_t exponent : matrix_.scale_codes) {
      if (exponent <= kLargestMxfp4Exponent) continue;
      refuse(expected_[1].name, "holds the exponent " + std::to_string(exponent) + "; expected at most " +
                                    std::to_string(kLargestMxfp4Exponent) + ", beyond which values are not finite");
    }
  }
  // One for all rows is one for each.
  void read_row_scales() {
    read_scales(expected_[1], {{rows_, 1}, {rows_}, {1}, {1, 1}, {}});
    if (matrix_.scales.size() == 1) matrix_.scales.assign(static_cast<size_t>(rows_), matrix_.scales[0]);
  }

  // Each row has the scales of its block.
  void give_to_rows() {
    const auto per_row = static_cast<std::ptrdiff_t>(expected_[1].shape.back());
    const int64_t each = rows_ / matrices_, blocks = std::ssize(matrix_.scales) / per_row / matrices_;
    std::vector<float> of_rows;
    of_rows.reserve(static_cast<size_t>(rows_ * per_row));
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t block = row / each * blocks + row % each / kFp8BlockRows;
      const auto first = matrix_.scales.begin() + block * per_row;
      of_rows.insert(of_rows.end(), first, first + per_row);
    }
    matrix_.scales = std::move(of_rows);
  }

  void find_weight_format() {
    if (!folder_.find(expected_[2].name)) return;  // older versions of bitsandbytes write none
    if (values_of<uint8_t>(require(expected_[2]))[0] != 0) {
      refuse(expected_[2].name, "says that codes are not in rows, as they are for one kind of GPU");
    }
  }

  void find_shape() {
    const StoredTensor& shape = expected_[2];
    const Entry entry = require_one_of(shape, {DType::kI64, DType::kI32}, {shape.shape});
    std::vector<int64_t> sizes;
    if (entry.info->dtype == DType::kI64) {
      sizes = values_of<int64_t>(entry);
    } else {
      for (const int32_t size : values_of<int32_t>(entry)) sizes.push_back(size);
    }
    if (sizes != std::vector<int64_t>{rows_, columns_}) {
      refuse(shape.name, "says " + text_of(sizes) + ", but config.json makes it " + text_of({rows_, columns_}));
    }
  }

  void check_table(const StoredTensor& expected, std::span<const float> table) {
    const std::vector<float> stored = values_of<float>(require(expected));
    constexpr float kTolerance = 1e-6f;  // versions of bitsandbytes differ in the last place
    const bool same = std::equal(stored.begin(), stored.end(), table.begin(), table.end(),
                                 [](float a, float b) { return std::abs(a - b) <= kTolerance; });
    if (!same) refuse(expected.name, "holds other values than those of " + std::string(name_of(format_.scheme)));
  }

  void find_nf4() {
    const bool doubly = has_double_scales(format_.scheme);
    const auto& state_tensor = expected_[3];
    const auto found = folder_.find(state_tensor.name);
    check_there(found, state_tensor);
    const Entry entry = require_one_of(state_tensor, {DType::kU8}, {{found->info->bytes}});
    const QuantState state =
        parse_quant_state({reinterpret_cast<const char*>(entry.data()), static_cast<size_t>(entry.info->bytes)},
                          where(state_tensor.name));
    if (state.rows != rows_ || state.columns != columns_) {
      refuse(state_tensor.name, "says " + text_of({state.rows, state.columns}) + ", but config.json makes it " +
                                    text_of({rows_, columns_}));
    }
    if (state.offset.has_value() != doubly) {
      refuse(state_tensor.name, std::string("is of a matrix ") + (doubly ? "without" : "with") +
                                    " double quantization, other than bnb_4bit_use_double_quant in config.json");
    }
    check_table(expected_[2], kNf4Values);
    if (!doubly) return read_scales(expected_[1], {expected_[1].shape});
    matrix_.scale_codes = values_of<uint8_t>(require(expected_[1]));
    matrix_.outer_scales = values_of<float>(require(expected_[4]));
    check_scales(expected_[4].name, matrix_.outer_scales);
    check_table(expected_[5], kSignedDynamic.values);
    matrix_.outer_scales.push_back(*state.offset);
  }

  const weights::ModelFolder& folder_;
  const FolderFormat format_;
  const std::string name_;
  const int64_t rows_, columns_, matrices_;
  std::vector<StoredTensor> expected_;
  StoredMatrix matrix_;
};

}  // namespace

StoredMatrix find_matrix(const weights::ModelFolder& folder, const FolderFormat& format, const std::string& name,
                         int64_t rows, int64_t columns, int64_t matrices) {
  return Finder(folder, format, name, rows, columns, matrices).find();
}

}  // namespace fathom::quant
