// Widens a block of rows to FP32 in the order of the file, and rounds it to the file's type.
#include "checkpoint/gguf_rows.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "gguf/model_keys.h"
#include "ops/scalar_type.h"
#include "quant/ggml_blocks.h"

namespace fathom::checkpoint {
namespace {

using weights::GgufTensor;
using weights::GgufType;

constexpr int64_t kBlockElements = int64_t{1} << 22;

// Rows [first, first + count) of the file, in FP32.
at::Tensor widened(const at::Tensor& stored_ND, int64_t first, int64_t count, int64_t heads) {
  if (heads == 0) return stored_ND.narrow(0, first, count).to(at::kFloat);
  const at::Tensor order_N = at::empty({count}, at::kLong);
  int64_t* order = order_N.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) order[i] = gguf::row_in_pairs(first + i, stored_ND.size(0), heads);
  return stored_ND.index_select(0, order_N).to(at::kFloat);
}

bool all_finite(const at::Tensor& values) {
  return values.numel() == 0 || std::isfinite(values.abs().amax().to(at::kFloat).item<float>());
}

// The bytes of rows in a quantized type; an undefined tensor where they are not finite in it.
at::Tensor in_blocks(const at::Tensor& rows_ND, GgufType type) {
  const int64_t columns = rows_ND.size(1), row_bytes = weights::gguf_row_bytes(type, columns);
  const auto quantize = type == GgufType::kQ4_0 ? quant::quantize_q4_0 : quant::quantize_q8_0;
  at::Tensor blocks = at::empty({rows_ND.size(0), row_bytes}, at::kByte);
  const auto* values = rows_ND.const_data_ptr<float>();
  auto* bytes = static_cast<std::byte*>(blocks.mutable_data_ptr());
  std::atomic<bool> finite = true;
  at::parallel_for(0, rows_ND.size(0), std::max<int64_t>(1, 32768 / columns), [&](int64_t begin, int64_t end) {
    if (!quantize(values + begin * columns, (end - begin) * columns, bytes + begin * row_bytes)) finite = false;
  });
  return finite ? blocks : at::Tensor();
}

at::Tensor rounded(const at::Tensor& rows_ND, GgufType type) {
  switch (type) {
    case GgufType::kQ8_0:
    case GgufType::kQ4_0:
      return in_blocks(rows_ND, type);
    case GgufType::kF16:
    case GgufType::kBF16:
    case GgufType::kF32:
      break;
  }
  const at::Tensor result = rows_ND.to(type == GgufType::kF16    ? at::kHalf
                                       : type == GgufType::kBF16 ? at::kBFloat16
                                                                 : at::kFloat);
  return all_finite(result) ? result : at::Tensor();
}

// A source with its numbers, which it holds where nobody else does.
struct OpenedSource {
  OpenedSource(const weights::TensorSource& opened, const std::string& where) : source(opened) {
    if (source.dtype != DType::kF32 && source.dtype != DType::kF16 && source.dtype != DType::kBF16) {
      throw Error(where + ": tensor " + source.name + " is stored in " + std::string(dtype_name(source.dtype)),
                  "expected float32, float16 or bfloat16");
    }
    int64_t elements = 1;
    for (const int64_t size : source.shape) elements *= size;
    const int64_t columns = source.shape.size() < 2 ? 1 : source.shape.back();
    const std::byte* data = source.data;
    if (data == nullptr) {
      const int64_t bytes = elements * size_of(source.dtype);
      read = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
      source.read(read.get(), bytes);
      data = read.get();
    }
    matrix_ND = at::from_blob(const_cast<std::byte*>(data), {elements / columns, columns},
                              at::TensorOptions(ops::scalar_type(source.dtype)));
  }

  const weights::TensorSource& source;
  std::unique_ptr<std::byte[]> read;
  at::Tensor matrix_ND;
};

}  // namespace

GgufRows GgufRows::whole(weights::TensorSource source) {
  const int64_t rows = source.shape.front();
  return {.sources = {std::move(source)}, .slices = {{0, 0, rows}}};
}

GgufRows GgufRows::of(const std::vector<float>& values) {
  weights::TensorSource source = {"", DType::kF32, {std::ssize(values)}, {}};
  source.read = [values](std::byte* destination, int64_t bytes) {
    std::memcpy(destination, values.data(), static_cast<size_t>(bytes));
  };
  return whole(std::move(source));
}

void write_rows(const GgufRows& rows, const GgufTensor& tensor, const std::string& where, weights::GgufWriter& writer) {
  const at::NoGradGuard no_gradients;
  std::optional<OpenedSource> opened;
  for (const RowSlice& slice : rows.slices) {
    const weights::TensorSource& source = rows.sources[slice.source];
    if (!opened || &opened->source != &source) opened.emplace(source, where);
    const at::Tensor stored_ND = rows.transposed ? opened->matrix_ND.t() : opened->matrix_ND;
    const int64_t step = std::max<int64_t>(1, kBlockElements / stored_ND.size(1)), end = slice.first + slice.count;
    for (int64_t first = slice.first; first < end; first += step) {
      at::Tensor wide_ND = widened(stored_ND, first, std::min(step, end - first), rows.heads);
      if (rows.scale != 1) wide_ND = wide_ND.mul(rows.scale);
      if (rows.offset != 0) wide_ND = wide_ND.add(rows.offset);
      const at::Tensor block = rounded(wide_ND.contiguous(), tensor.type);
      if (!block.defined()) {
        throw Error(where + ": tensor " + source.name + " holds numbers that are not finite in the file's type",
                    "choose --outtype bf16 or f32, whose range is wider, or export another checkpoint");
      }
      writer.write(block.const_data_ptr(), static_cast<int64_t>(block.nbytes()));
    }
  }
}

}  // namespace fathom::checkpoint
