// fathom's own CUDA kernels as a table of functions, held by libfathom_cuda_kernels.so. No torch and no CUDA header.
//
// Each does on a whole tensor what its namesake in cpu/kernels.h does on rows: FP32 or BF16 in memory, FP32 arithmetic,
// rounded once. Pointers are the device's; work is queued on `stream`, a cudaStream_t, and nothing is waited for. Each
// returns the cudaError_t of its launch, 0 for success; nothing is launched where there is nothing to do.
#pragma once

#include <cstdint>

#include "cpu/kernels.h"
#include "cpu/mixed_adamw_kernel.h"

namespace fathom::ops {

// A quantized matrix on the device (ops/quantized/quantized_matrix.h), its values in row-major order.
struct CodedMatrix {
  enum class Kind { kInt8, kFp8, kNf4, kInt4 };  // MXFP4 is a kInt4 of other tables
  Kind kind = Kind::kInt8;
  const void* codes = nullptr;
  int64_t values = 0;
  int64_t values_per_scale = 0;        // a row's; in 4 bits a block's, a power of two from 16 on
  const void* scales = nullptr;        // FP32; bytes where there is a dynamic_256
  const float* pairs_256x2 = nullptr;  // in 4 bits: what the two codes of each byte stand for
  const float* dynamic_256 = nullptr;  // what bytes of scales stand for
  // With double quantization: by what each kScalesPerOuter of these are multiplied, and what is added.
  const float* outer_scales = nullptr;
  const float* offset = nullptr;
};
inline constexpr int64_t kScalesPerOuter = 256;

enum class Fp8Format { kE4m3, kE5m2 };
inline constexpr float kLeastFp8Row = 1e-30F;  // rows of smaller numbers become zeros, or nearly

// Of quant::DynamicMap, in the device's memory.
struct DynamicTable {
  const float *values_256 = nullptr, *midpoints_255 = nullptr;
  int zero = 0;
};

// A parameter of an update by AdamW, as cpu/mixed_adamw_kernel.h has it. The gradient is of the weights' type; moments
// are numbers, both of one type, or codes, and begin at multiples of 32 bytes, as masters do.
struct UpdatedParameter {
  cpu::StoredWeights weights;
  cpu::Rows gradient;
  cpu::StoredMoments moments;   // without data where they are codes
  cpu::QuantizedMoments codes;  // null where they are not
  cpu::DrawStream draws;
  int64_t elements = 0;
  bool decays = false;           // else `keep` of the step is 1
  bool nearest_moments = false;  // second moments in BF16 are rounded to nearest, as the first ones are
};

struct MixedAdamWUpdate {
  cpu::AdamWStep step;            // but for its factor:
  const float* factor = nullptr;  // in the device's memory; null: 1
  DynamicTable first, second;     // signed and unsigned, for codes
};

// A tensor whose squares are added up: FP32 or BF16, from any of its numbers on.
struct SquaredTensor {
  cpu::Rows values;
  int64_t elements = 0;
};
// So many elements, of one tensor, have a sum.
inline constexpr int64_t kSquaresPerSum = 65536;

// Rows that a block takes whole: of whole packs whatever the types, at most so long; their pointers are multiples of 32
// bytes.
inline constexpr int64_t kRowPack = 8, kWidestRow = 16384;
// So many sums of a weight's gradient norm_backward makes at most, before it adds them up.
inline constexpr int64_t kNormSums = 512;

struct CudaKernels {
  using Rows = cpu::Rows;
  // x_NE: N = rows of B*S*H.
  int (*rotate)(Rows in, const float* cos, const float* sin, Rows out, int64_t rows, int64_t heads, int64_t positions,
                int64_t head_size, float direction, void* stream);
  int (*swiglu)(Rows gate, Rows up, Rows out, int64_t elements, void* stream);
  // out: takes swiglu's output, in place of grad_out if that is asked for; without data: it does not.
  int (*swiglu_backward)(Rows grad_out, Rows gate, Rows up, Rows grad_gate, Rows grad_up, Rows out, int64_t elements,
                         void* stream);
  // By the root mean square alone. Rows that a block takes, which are FP32 or of the type of `out`, the weight FP32 or
  // of the type of rows.
  int (*norm)(Rows in, const cpu::Norm& norm, Rows out, float* rstd, int64_t rows, int64_t width, void* stream);
  // grad_stream: added to the gradient of the rows, which may be written in its place; grad_weight: of the weight's
  // type. Both without data where there is none. sums: room for min(rows, kNormSums) rows if there is a grad_weight.
  int (*norm_backward)(Rows grad_out, Rows in, const cpu::Norm& norm, const float* rstd, Rows grad_stream, Rows grad_in,
                       Rows grad_weight, float* sums, int64_t rows, int64_t width, void* stream);
  // losses[n] = logsumexp(logits[n]) - logits[n][target], 0 where the target is `ignored`, NaN where it is no token.
  // The logits become their gradient times gradient_scale if that is not 0.
  int (*cross_entropy)(Rows logits, const int64_t* targets, int64_t ignored, float gradient_scale, float* losses,
                       int64_t rows, int64_t vocabulary, void* stream);
  // All values, with the bits that a CPU gives them: what a code stands for times its scale in FP32, rounded to `out`.
  int (*dequantize)(const CodedMatrix& matrix, Rows out, void* stream);
  // codes[t] = in[t] * columns / scales[t], of which the largest is the format's; columns: FP32, null: 1. Rows that a
  // block takes.
  int (*fp8_rows)(Rows in, const float* columns, Fp8Format format, void* codes, float* scales, int64_t rows,
                  int64_t width, void* stream);
  // Rows become columns, of bytes; both counts are multiples of 16, both pointers too. ones: null, or takes a 1 for
  // each of the columns.
  int (*turn_bytes)(const void* in, void* out, float* ones, int64_t rows, int64_t columns, void* stream);
  // One launch for some hundreds of parameters, of whatever types each is.
  int (*mixed_adamw)(const MixedAdamWUpdate& update, const UpdatedParameter* parameters, int64_t count, void* stream);
  // Of each tensor in order, for every kSquaresPerSum of its elements and for the rest: the sum of their squares in
  // FP32, always the same bits. One launch for some hundreds of tensors.
  int (*sums_of_squares)(const SquaredTensor* tensors, int64_t count, float* sums, void* stream);
  // total = sqrt(sum of all) / loss_scale, added up in FP64; factor, unless it is null: what brings gradients of this
  // total to max_norm where they are beyond it (0: no limit), / loss_scale. One launch, also for no sums.
  int (*norm_of_sums)(const float* sums, int64_t count, double max_norm, double loss_scale, float* total, float* factor,
                      void* stream);
  const char* (*error_text)(int error);
};

}  // namespace fathom::ops

// The only symbol that libfathom_cuda_kernels.so exports.
extern "C" const fathom::ops::CudaKernels* fathom_cuda_kernels();
