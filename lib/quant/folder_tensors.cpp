// Names and shapes by library, and scales as each library has them.
#include "quant/folder_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/bytes.h"
#include "base/json.h"
#include "base/rounding.h"
#include "quant/mxfp4.h"
#include "quant/nf4.h"
#include "quant/quant_state.h"
#include "quant/scales.h"

namespace fathom::quant {
namespace {

using weights::TensorSource;

// It makes "….up_proj" of "….up_proj.weight".
std::string module_of(const std::string& weight) { return weight.substr(0, weight.rfind('.')); }

std::vector<StoredTensor> bitsandbytes_tensors(Scheme scheme, const std::string& name, int64_t rows, int64_t columns) {
  const Layout layout = layout_of(scheme, rows, columns);
  if (is_int8(scheme)) {
    return {{name, DType::kI8, {rows, columns}},
            {module_of(name) + ".SCB", DType::kF32, {rows}},
            {module_of(name) + ".weight_format", DType::kU8, {}}};
  }
  const bool doubly = has_double_scales(scheme);
  std::vector<StoredTensor> tensors = {
      {name, DType::kU8, {layout.code_bytes, 1}},
      {name + ".absmax", doubly ? DType::kU8 : DType::kF32, {layout.scales}},
      {name + ".quant_map", DType::kF32, {std::ssize(kNf4Values)}},
      {name + ".quant_state.bitsandbytes__nf4", DType::kU8, {quant_state_bytes(scheme)}}};
  if (doubly) {
    tensors.push_back({name + ".nested_absmax", DType::kF32, {layout.outer_scales - 1}});
    tensors.push_back({name + ".nested_quant_map", DType::kF32, {std::ssize(kSignedDynamic.values)}});
  }
  return tensors;
}

std::vector<StoredTensor> compressed_tensors(Scheme scheme, const std::string& name, int64_t rows, int64_t columns) {
  const Layout layout = layout_of(scheme, rows, columns);
  if (has_row_scales(scheme)) {
    return {{name, is_fp8(scheme) ? DType::kF8E4M3 : DType::kI8, {rows, columns}},
            {name + "_scale", DType::kF32, {rows, 1}}};
  }
  constexpr int64_t kCodesPerWord = 8;  // groups are multiples of it
  return {{name + "_packed", DType::kI32, {rows, columns / kCodesPerWord}},
          {name + "_scale", DType::kF32, {rows, layout.scales / rows}},
          {name + "_shape", DType::kI64, {2}}};
}

// The blocks of a row, of 16 bytes each, in the rows of each expert.
std::vector<StoredTensor> mxfp4_tensors(const std::string& name, int64_t rows, int64_t columns, int64_t matrices) {
  const Layout layout = layout_of(Scheme::kMxfp4, rows, columns);
  const int64_t blocks = layout.scales / rows;
  return {{name + "_blocks", DType::kU8, {matrices, rows / matrices, blocks, kMxfp4Block / 2}},
          {name + "_scales", DType::kU8, {matrices, rows / matrices, blocks}}};
}

// One scale for a block's columns in each of its rows; those at the end of an expert's rows may be fewer.
int64_t blocks_of_rows(int64_t rows) { return divide_up(rows, kFp8BlockRows); }

std::vector<StoredTensor> fp8_block_tensors(const std::string& name, int64_t rows, int64_t columns, int64_t matrices) {
  const Layout layout = layout_of(Scheme::kFp8Block128, rows, columns);
  const int64_t each = rows / matrices;
  std::vector<int64_t> codes = {each, columns}, scales = {blocks_of_rows(each), layout.scales / rows};
  if (matrices > 1) {
    for (std::vector<int64_t>* shape : {&codes, &scales}) shape->insert(shape->begin(), matrices);
  }
  return {{name, DType::kF8E4M3, codes}, {name + "_scale_inv", DType::kF32, scales}};
}

// What divided by 127 gives the scale, if any number does: then the largest magnitude of the row.
float largest_magnitude_of(float scale) {
  constexpr float kLargestCode = 127;
  const float product = scale * kLargestCode;
  for (const float each : {product, std::nextafterf(product, 0), std::nextafterf(product, HUGE_VALF)}) {
    if (each / kLargestCode == scale) return each;
  }
  return product;
}

using Read = std::function<void(std::byte*, int64_t)>;

Read copy_of(std::string bytes) {
  return [bytes = std::move(bytes)](std::byte* out, int64_t size) {
    std::memcpy(out, bytes.data(), static_cast<size_t>(size));
  };
}
template <typename Values>
Read copy_of_values(const Values& values) {
  return copy_of({reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]});
}

Read magnitudes_of(const float* scales) {
  return [scales](std::byte* out, int64_t size) {
    for (int64_t row = 0; row < size / static_cast<int64_t>(sizeof(float)); ++row) {
      const float magnitude = largest_magnitude_of(scales[row]);
      std::memcpy(out + row * static_cast<int64_t>(sizeof magnitude), &magnitude, sizeof magnitude);
    }
  };
}

// Of the first row of each block. All of its rows must have the same: those of a matrix that one tensor was read into.
Read scales_of_blocks(const MatrixBytes& matrix) {
  const int64_t each = matrix.rows / matrix.matrices;
  const int64_t row_bytes = layout_of(matrix.scheme, 1, matrix.columns).scale_bytes;
  return [=, scales = matrix.scales](std::byte* out, int64_t size) {
    const int64_t blocks = blocks_of_rows(each);
    for (int64_t block = 0; block < size / row_bytes; ++block) {
      const int64_t row = block / blocks * each + block % blocks * kFp8BlockRows;
      std::memcpy(out + block * row_bytes, scales + row * row_bytes, static_cast<size_t>(row_bytes));
    }
  };
}

struct Content {
  const std::byte* data = nullptr;
  Read read;  // where data is null
};

// They come in the order of tensors_of_matrix.
std::vector<Content> contents_of(const MatrixBytes& matrix, DType dtype) {
  const Content codes = {matrix.codes, {}}, scales = {matrix.scales, {}};
  if (is_int8(matrix.scheme)) {
    constexpr char kRowMajor = 0;
    return {codes,
            {nullptr, magnitudes_of(reinterpret_cast<const float*>(matrix.scales))},
            {nullptr, copy_of(std::string(1, kRowMajor))}};
  }
  if (matrix.scheme == Scheme::kFp8Block128) return {codes, {nullptr, scales_of_blocks(matrix)}};
  if (is_fp8(matrix.scheme) || is_mxfp4(matrix.scheme)) return {codes, scales};
  if (is_int4(matrix.scheme)) {
    return {codes, scales, {nullptr, copy_of_values(std::array<int64_t, 2>{matrix.rows, matrix.columns})}};
  }
  std::optional<float> offset;
  const int64_t outer = layout_of(matrix.scheme, matrix.rows, matrix.columns).outer_scales;
  if (outer > 0) offset = matrix.outer_scales[outer - 1];
  std::vector<Content> contents = {codes,
                                   scales,
                                   {nullptr, copy_of_values(kNf4Values)},
                                   {nullptr, copy_of(quant_state_text({matrix.rows, matrix.columns, dtype, offset}))}};
  if (outer > 0) {
    contents.push_back({reinterpret_cast<const std::byte*>(matrix.outer_scales), {}});
    contents.push_back({nullptr, copy_of_values(kSignedDynamic.values)});
  }
  return contents;
}

}  // namespace

std::vector<StoredTensor> tensors_of_matrix(const FolderFormat& format, const std::string& name, int64_t rows,
                                            int64_t columns, int64_t matrices) {
  switch (format.library) {
    case Library::kBitsAndBytes:
      return bitsandbytes_tensors(format.scheme, name, rows, columns);
    case Library::kCompressedTensors:
      return compressed_tensors(format.scheme, name, rows, columns);
    case Library::kBlockFp8:
      return fp8_block_tensors(name, rows, columns, matrices);
    case Library::kTransformers:
      break;
  }
  return mxfp4_tensors(name, rows, columns, matrices);
}

std::vector<TensorSource> sources_of_matrix(const std::string& name, const MatrixBytes& matrix, DType dtype) {
  const auto tensors = tensors_of_matrix(format_of(matrix.scheme), name, matrix.rows, matrix.columns, matrix.matrices);
  std::vector<Content> contents = contents_of(matrix, dtype);
  std::vector<TensorSource> sources;
  for (size_t i = 0; i < tensors.size(); ++i) {
    sources.push_back(
        {tensors[i].name, tensors[i].dtype, tensors[i].shape, std::move(contents[i].read), contents[i].data});
  }
  return sources;
}

}  // namespace fathom::quant
