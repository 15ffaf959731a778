// How the kernels are launched: one thread for each access to memory, or one block for each row. No header of CUDA's:
// nvcc brings its own, and the tests their own too (tests/ops/cuda_on_cpu.h).
#include <type_traits>

#include "ops/cuda/dequantize.cuh"
#include "ops/cuda/fp8.cuh"
#include "ops/cuda/gradient_norm.cuh"
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/mixed_adamw.cuh"
#include "ops/cuda/norm.cuh"

namespace fathom::ops::cuda {
namespace {

using cpu::Rows;
using cpu::RowType;

constexpr unsigned kThreads = 256;
constexpr int kPackBytes = 16;  // the widest access to memory
constexpr int kPairs = 4;       // of FP32 cosines and sines in such an access

template <typename T>
constexpr int kPack = kPackBytes / static_cast<int>(sizeof(T));

template <typename T>
T* as(Rows rows) {
  return static_cast<T*>(rows.data);
}

template <typename... Pointers>
bool aligned(Pointers... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % kPackBytes == 0) && ...);
}

// Calls launch(T()) for the rows' type.
template <typename Launch>
int for_type(RowType type, Launch launch) {
  return type == RowType::kF32 ? launch(float()) : launch(BFloat16());
}

template <typename... Parameters, typename... Arguments>
int launch_blocks(void (*kernel)(Parameters...), int64_t blocks, unsigned threads, void* stream,
                  Arguments... arguments) {
  constexpr int64_t kMostBlocks = 0x7fffffff;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks > kMostBlocks ? 0 : static_cast<unsigned>(blocks));  // 0 is refused, as it should be
  config.blockDim = dim3(threads);
  config.stream = static_cast<cudaStream_t>(stream);
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

template <typename... Parameters, typename... Arguments>
int launch_packs(void (*kernel)(Parameters...), int64_t packs, void* stream, Arguments... arguments) {
  return launch_blocks(kernel, (packs + kThreads - 1) / kThreads, kThreads, stream, arguments...);
}

// Calls launch(records, chunks) for as many tensors at a time as there is room for records of (ops/cuda/chunks.cuh).
template <int kChunk, typename Tensor, typename Record, int kRoom, typename RecordOf, typename Launch>
int launch_chunks(const Tensor* tensors, int64_t count, Record (&records)[kRoom], RecordOf record_of, Launch launch) {
  int filled = 0;
  int64_t chunks = 0;
  const auto flush = [&] {
    const int error = filled == 0 ? cudaSuccess : launch(filled, chunks);
    filled = 0;
    chunks = 0;
    return error;
  };
  for (int64_t i = 0; i < count; ++i) {
    if (tensors[i].elements == 0) continue;
    chunks += (tensors[i].elements + kChunk - 1) / kChunk;
    records[filled] = record_of(tensors[i]);
    records[filled++].chunks_end = static_cast<unsigned>(chunks);
    if (filled < kRoom) continue;
    if (const int error = flush(); error != cudaSuccess) return error;
  }
  return flush();
}

int launch_rotate(Rows in, const float* cos, const float* sin, Rows out, int64_t rows, int64_t heads, int64_t positions,
                  int64_t head_size, float direction, void* stream) {
  const int64_t half = head_size / 2;
  if (rows * half == 0) return cudaSuccess;
  return for_type(in.type, [&](auto type) {
    using T = decltype(type);
    const bool wide = half % kPairs == 0 && aligned(in.data, cos, sin, out.data);
    const int64_t half_packs = wide ? half / kPairs : half, packs = rows * half_packs;
    return launch_packs(wide ? rotate<T, kPairs> : rotate<T, 1>, packs, stream, as<T>(in), cos, sin, as<T>(out), packs,
                        heads, positions, half_packs, direction);
  });
}

int launch_swiglu(Rows gate, Rows up, Rows out, int64_t elements, void* stream) {
  if (elements == 0) return cudaSuccess;
  return for_type(gate.type, [&](auto type) {
    using T = decltype(type);
    const bool wide = elements % kPack<T> == 0 && aligned(gate.data, up.data, out.data);
    const int64_t packs = wide ? elements / kPack<T> : elements;
    return launch_packs(wide ? swiglu<T, kPack<T>> : swiglu<T, 1>, packs, stream, as<T>(gate), as<T>(up), as<T>(out),
                        packs);
  });
}

int launch_swiglu_backward(Rows grad_out, Rows gate, Rows up, Rows grad_gate, Rows grad_up, Rows out, int64_t elements,
                           void* stream) {
  if (elements == 0) return cudaSuccess;
  return for_type(gate.type, [&](auto type) {
    using T = decltype(type);
    const bool wide =
        elements % kPack<T> == 0 && aligned(grad_out.data, gate.data, up.data, grad_gate.data, grad_up.data, out.data);
    const int64_t packs = wide ? elements / kPack<T> : elements;
    return launch_packs(wide ? swiglu_backward<T, kPack<T>> : swiglu_backward<T, 1>, packs, stream, as<T>(grad_out),
                        as<T>(gate), as<T>(up), as<T>(grad_gate), as<T>(grad_up), as<T>(out), packs);
  });
}

// Calls launch(T(), Weight(), Out()) for what a norm reads, multiplies by and writes.
template <typename Launch>
int for_norm(Rows in, Rows weight, Rows out, Launch launch) {
  if (in.type == RowType::kF32) {
    return for_type(out.type, [&](auto type) { return launch(float(), float(), type); });
  }
  return for_type(weight.type, [&](auto type) { return launch(BFloat16(), type, BFloat16()); });
}

// Calls launch(packs of a row, threads of a block, packs for a thread as a constant).
template <typename T, typename Launch>
int for_width(int64_t width, Launch launch) {
  constexpr int64_t kThreadsAtFirst = 256;
  const int64_t packs = width / kPack<T>;
  const auto with = [&](auto each) {
    const int64_t share = int64_t{decltype(each)::value} * kWarp;
    return launch(packs, static_cast<unsigned>((packs + share - 1) / share * kWarp), each);
  };
  if (packs <= kThreadsAtFirst) return with(std::integral_constant<int, 1>());
  if (packs <= 2 * kThreadsAtFirst) return with(std::integral_constant<int, 2>());
  if (packs <= int64_t{4} * kMostRowThreads) return with(std::integral_constant<int, 4>());
  return with(std::integral_constant<int, kWidestRow / kPack<float> / kMostRowThreads>());  // FP32 alone
}

int launch_norm(Rows in, const cpu::Norm& norm, Rows out, float* rstd, int64_t rows, int64_t width, void* stream) {
  if (rows == 0) return cudaSuccess;
  return for_norm(in, norm.weight, out, [&](auto type, auto of_weight, auto of_out) {
    using T = decltype(type);
    using Weight = decltype(of_weight);
    using Out = decltype(of_out);
    return for_width<T>(width, [&](int64_t packs, unsigned threads, auto each) {
      return launch_blocks(rms_norm<T, Weight, Out, kPack<T>, decltype(each)::value>, rows, threads, stream, as<T>(in),
                           as<Weight>(norm.weight), norm.offset, norm.eps, as<Out>(out), rstd, packs);
    });
  });
}

int launch_norm_backward(Rows grad_out, Rows in, const cpu::Norm& norm, const float* rstd, Rows grad_stream,
                         Rows grad_in, Rows grad_weight, float* sums, int64_t rows, int64_t width, void* stream) {
  if (rows == 0) return cudaSuccess;
  const bool has_weight = grad_weight.data != nullptr;
  const int64_t blocks = has_weight && rows > kNormSums ? kNormSums : rows;
  const int error = for_norm(in, norm.weight, grad_out, [&](auto type, auto of_weight, auto of_out) {
    using T = decltype(type);
    using Weight = decltype(of_weight);
    using Out = decltype(of_out);
    return for_width<T>(width, [&](int64_t packs, unsigned threads, auto each) {
      return launch_blocks(rms_norm_backward<T, Weight, Out, kPack<T>, decltype(each)::value>, blocks, threads, stream,
                           as<Out>(grad_out), as<T>(in), as<Weight>(norm.weight), norm.offset, rstd, as<T>(grad_stream),
                           as<T>(grad_in), has_weight ? sums : nullptr, rows, packs);
    });
  });
  if (error != cudaSuccess || !has_weight) return error;
  return for_type(grad_weight.type, [&](auto type) {
    using T = decltype(type);
    return launch_blocks(sum_rows<T>, (width + kWarp - 1) / kWarp, kWarp * kMostWarps, stream, sums, as<T>(grad_weight),
                         blocks, width);
  });
}

int launch_cross_entropy(Rows logits, const int64_t* targets, int64_t ignored, float gradient_scale, float* losses,
                         int64_t rows, int64_t vocabulary, void* stream) {
  if (rows == 0) return cudaSuccess;
  return for_type(logits.type, [&](auto type) {
    using T = decltype(type);
    const bool wide = vocabulary % kPack<T> == 0 && aligned(logits.data);
    const int64_t packs = wide ? vocabulary / kPack<T> : vocabulary;
    return launch_blocks(wide ? cross_entropy<T, kPack<T>> : cross_entropy<T, 1>, rows, kLossThreads, stream,
                         as<T>(logits), targets, ignored, gradient_scale, losses, packs);
  });
}

template <typename Codes>
int launch_dequantize_as(Codes codes, const CodedMatrix& matrix, Rows out, void* stream) {
  return for_type(out.type, [&](auto type) {
    using T = decltype(type);
    // Packs that share a scale: blocks of 4 bits are whole packs, rows may not be.
    const int64_t run = Codes::kPerByte > 1 ? matrix.values : matrix.values_per_scale;
    const bool wide = run % kPack<T> == 0 && aligned(matrix.codes, out.data);
    const int64_t packs = wide ? matrix.values / kPack<T> : matrix.values;
    return launch_blocks(wide ? dequantize<T, kPack<T>, Codes> : dequantize<T, 1, Codes>,
                         (packs + kPacksOfBlock - 1) / kPacksOfBlock, kDequantizeThreads, stream, matrix, codes,
                         as<T>(out), packs);
  });
}

int launch_dequantize(const CodedMatrix& matrix, Rows out, void* stream) {
  using Kind = CodedMatrix::Kind;
  if (matrix.values == 0) return cudaSuccess;
  if (matrix.values_per_scale > kMostPerScale) return cudaErrorInvalidValue;
  int64_t block_bits = 0;
  while (int64_t{2} << block_bits <= matrix.values_per_scale) ++block_bits;
  switch (matrix.kind) {
    case Kind::kInt8:
      return launch_dequantize_as(Int8Codes{matrix.values_per_scale}, matrix, out, stream);
    case Kind::kFp8:
      return launch_dequantize_as(Fp8Codes{{matrix.values_per_scale}}, matrix, out, stream);
    case Kind::kNf4:
      return launch_dequantize_as(FourBitCodes<true>{block_bits}, matrix, out, stream);
    case Kind::kInt4:
      return launch_dequantize_as(FourBitCodes<false>{block_bits}, matrix, out, stream);
  }
  return cudaErrorInvalidValue;
}

int launch_fp8_rows(Rows in, const float* columns, Fp8Format format, void* codes, float* scales, int64_t rows,
                    int64_t width, void* stream) {
  if (rows == 0) return cudaSuccess;
  return for_type(in.type, [&](auto type) {
    using T = decltype(type);
    return for_width<T>(width, [&](int64_t packs, unsigned threads, auto each) {
      constexpr int kEach = decltype(each)::value;
      return launch_blocks(
          format == Fp8Format::kE4m3 ? fp8_rows<E4m3, T, kPack<T>, kEach> : fp8_rows<E5m2, T, kPack<T>, kEach>, rows,
          threads, stream, as<T>(in), columns, static_cast<uint8_t*>(codes), scales, packs);
    });
  });
}

int launch_turn_bytes(const void* in, void* out, float* ones, int64_t rows, int64_t columns, void* stream) {
  if (rows == 0 || columns == 0) return cudaSuccess;
  const int64_t across = (columns + kSide - 1) / kSide, down = (rows + kSide - 1) / kSide;
  return launch_blocks(turn_bytes<kWords + 1>, across * down, kTurnThreads, stream, static_cast<const uint8_t*>(in),
                       static_cast<uint8_t*>(out), ones, rows, columns, across);
}

MixedAdamWArguments arguments_of(const MixedAdamWUpdate& update) {
  const cpu::AdamWStep& step = update.step;
  MixedAdamWArguments arguments = {};
  arguments.change1 = 1 - static_cast<float>(step.beta1);
  arguments.beta2 = static_cast<float>(step.beta2);
  arguments.change2 = 1 - static_cast<float>(step.beta2);
  arguments.epsilon = static_cast<float>(step.epsilon);
  arguments.keep = static_cast<float>(step.keep);
  arguments.rate = static_cast<float>(step.rate);
  arguments.root_second = static_cast<float>(step.root_second);
  arguments.factor = update.factor;
  arguments.first_table = update.first;
  arguments.second_table = update.second;
  return arguments;
}

UpdateRecord record_of(const UpdatedParameter& parameter) {
  const cpu::StoredWeights& weights = parameter.weights;
  UpdateRecord record = {};
  record.stored = weights.stored.data;
  record.masters = weights.masters;
  record.gradient = parameter.gradient.data;
  record.draws = parameter.draws;
  record.elements = parameter.elements;
  record.narrow_weights = weights.stored.type != RowType::kF32;
  record.decays = parameter.decays;
  record.masters_unset = weights.masters_unset;
  record.stochastic = weights.stochastic;
  record.nearest_moments = parameter.nearest_moments;
  const auto take_moments = [&](MomentType type, void* first, void* second) {
    record.moments = static_cast<unsigned>(type);
    record.first = first;
    record.second = second;
  };
  const auto& [first_codes, first_scales, second_codes, second_scales] = parameter.codes;
  if (first_codes != nullptr) {
    take_moments(MomentType::kCodes, first_codes, second_codes);
    record.first_scales = first_scales;
    record.second_scales = second_scales;
  } else {
    const auto& [first, second] = parameter.moments;
    take_moments(first.type == RowType::kF32 ? MomentType::kF32 : MomentType::kBF16, first.data, second.data);
  }
  return record;
}

int launch_mixed_adamw(const MixedAdamWUpdate& update, const UpdatedParameter* parameters, int64_t count,
                       void* stream) {
  MixedAdamWArguments arguments = arguments_of(update);
  return launch_chunks<kUpdateChunk>(parameters, count, arguments.parameters, record_of,
                                     [&](int records, int64_t chunks) {
                                       arguments.count = records;
                                       return launch_blocks(mixed_adamw, chunks, kUpdateThreads, stream, arguments);
                                     });
}

int launch_sums_of_squares(const SquaredTensor* tensors, int64_t count, float* sums, void* stream) {
  SquaresArguments arguments = {};
  arguments.sums = sums;
  const auto record_of = [](const SquaredTensor& tensor) {
    return SquaredRecord{tensor.values.data, tensor.elements, 0, tensor.values.type != RowType::kF32};
  };
  return launch_chunks<kSquareChunk>(tensors, count, arguments.tensors, record_of, [&](int records, int64_t chunks) {
    arguments.count = records;
    const int error = launch_blocks(sums_of_squares, chunks, kSquareThreads, stream, arguments);
    arguments.sums += chunks;
    return error;
  });
}

int launch_norm_of_sums(const float* sums, int64_t count, double max_norm, double loss_scale, float* total,
                        float* factor, void* stream) {
  return launch_blocks(norm_of_sums, 1, kSumThreads, stream, sums, count, max_norm, loss_scale, total, factor);
}

const char* error_text(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

}  // namespace
}  // namespace fathom::ops::cuda

const fathom::ops::CudaKernels* fathom_cuda_kernels() {
  namespace own = fathom::ops::cuda;
  static constexpr fathom::ops::CudaKernels kTable = {
      own::launch_rotate,      own::launch_swiglu,          own::launch_swiglu_backward,
      own::launch_norm,        own::launch_norm_backward,   own::launch_cross_entropy,
      own::launch_dequantize,  own::launch_fp8_rows,        own::launch_turn_bytes,
      own::launch_mixed_adamw, own::launch_sums_of_squares, own::launch_norm_of_sums,
      own::error_text};
  return &kTable;
}
