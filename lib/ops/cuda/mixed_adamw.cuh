// AdamW on weights and moments that are stored in different types. The arithmetic is that of cpu/mixed_adamw_lanes.cpp,
// in its order; only the root and two divisions, of which the weights' change is made, are a GPU's approximate ones.
#pragma once

#include "ops/cuda/chunks.cuh"
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/kernels.h"
#include "quant/dynamic.h"
#include "quant/magnitude.h"

namespace fathom::ops::cuda {

constexpr int kUpdateThreads = 256;
constexpr int kEach = 8;                           // elements that a thread updates at a time
constexpr int kEachTime = kUpdateThreads * kEach;  // those of a block of threads
constexpr int kUpdateChunk = 8 * kEachTime;        // all that a block of threads updates
static_assert(int64_t{kWarp} * kEach == quant::kDynamicBlock, "a warp has a block of codes");

using EightFloats = Pack<float, kEach>;

enum class MomentType : unsigned { kF32, kBF16, kCodes };

// An UpdatedParameter in as few bytes as it can have, so that a launch takes all of most models.
struct UpdateRecord {
  void* stored;
  float* masters;
  const void* gradient;
  void *first, *second;  // moments, as numbers or as codes with scales
  float *first_scales, *second_scales;
  cpu::DrawStream draws;
  int64_t elements;
  unsigned chunks_end;  // of the grid's chunks, those of the parameters before included
  unsigned narrow_weights : 1, moments : 2, decays : 1, masters_unset : 1, stochastic : 1, nearest_moments : 1;
};
static_assert(sizeof(UpdateRecord) == 88);

// What one launch takes.
constexpr int kParametersAtOnce = 370;
struct MixedAdamWArguments {
  float change1, beta2, change2, epsilon, keep, rate, root_second;
  const float* factor;
  DynamicTable first_table, second_table;
  int count;
  UpdateRecord parameters[kParametersAtOnce];
};
static_assert(sizeof(MixedAdamWArguments) <= kParameterBytes);

// Within three units in the last place, in an instruction or two instead of dozens. Of magnitudes below FP32's normal
// numbers as of 0.
__device__ inline float approximate_root(float value) {
#ifdef __CUDA_ARCH__
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(value));
  return root;
#else
  return sqrtf(value);
#endif
}
__device__ inline float approximate_quotient(float dividend, float divisor) {
#ifdef __CUDA_ARCH__
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(divisor));
  return dividend * reciprocal;
#else
  return dividend / divisor;
#endif
}

// A thread's elements: `count` from `first` on; `whole`: as many as it may have, where one access may begin.
struct Share {
  int64_t first;
  int count;
  bool whole;
};

template <typename T>
__device__ Pack<T, kEach> take(const void* from, const Share& share, T missing = T()) {
  const T* const elements = static_cast<const T*>(from) + share.first;
  if (share.whole) return *reinterpret_cast<const Pack<T, kEach>*>(elements);
  Pack<T, kEach> taken;
  for (int i = 0; i < kEach; ++i) taken.at[i] = i < share.count ? elements[i] : missing;
  return taken;
}

template <typename T>
__device__ void put(const Pack<T, kEach>& values, void* to, const Share& share) {
  T* const elements = static_cast<T*>(to) + share.first;
  if (share.whole) {
    *reinterpret_cast<Pack<T, kEach>*>(elements) = values;
    return;
  }
  for (int i = 0; i < kEach; ++i) {  // of a constant count, so that values stay in registers
    if (i < share.count) elements[i] = values.at[i];
  }
}

template <typename T>
__device__ EightFloats widen(const Pack<T, kEach>& values) {
  EightFloats wide;
  for (int i = 0; i < kEach; ++i) wide.at[i] = widen(values.at[i]);
  return wide;
}

template <typename T>
__device__ Pack<T, kEach> rounded_to_nearest(const EightFloats& values) {
  Pack<T, kEach> out;
  for (int i = 0; i < kEach; ++i) out.at[i] = rounded<T>(values.at[i]);
  return out;
}

// Random bits for a thread's elements.
constexpr int kWeightBits = 16, kMomentBits = 0;  // the place of the 16 that weights take, and second moments
struct Draws {
  unsigned bits[kEach];
};

__device__ inline Draws draw_for(const Share& share, const cpu::DrawStream& stream) {
  const int64_t element = stream.origin + share.first;  // a share begins at a multiple of kEach
  const unsigned added = cpu::added_for(stream, element), low = static_cast<unsigned>(element);
  Draws draws;
  for (int i = 0; i < kEach; ++i) draws.bits[i] = cpu::draw(stream.first, added, low + i);
  return draws;
}

__device__ inline Pack<BFloat16, kEach> rounded_by_chance(const EightFloats& values, const Draws& draws, int shift) {
  Pack<BFloat16, kEach> out;
  for (int i = 0; i < kEach; ++i) {
    out.at[i] = {cpu::round_stochastically(values.at[i], draws.bits[i] >> shift & 0xffffu)};
  }
  return out;
}

__device__ inline Pack<float, kEach> rounded_from(const EightFloats& values, const Draws&, bool, int, float) {
  return values;
}
__device__ inline Pack<BFloat16, kEach> rounded_from(const EightFloats& values, const Draws& draws, bool by_chance,
                                                     int shift, BFloat16) {
  return by_chance ? rounded_by_chance(values, draws, shift) : rounded_to_nearest<BFloat16>(values);
}

__device__ inline unsigned largest_of_warp(unsigned mine) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const unsigned other = __shfl_xor_sync(0xffffffff, mine, distance);
    mine = mine > other ? mine : other;
  }
  return mine;
}

// Of dynamic codes; the lowest line counts.
template <bool kWithSigns>
struct DecadeLines {
  float slopes[quant::kDynamicDecades] = {}, offsets[quant::kDynamicDecades] = {};
  constexpr DecadeLines() {
    for (int i = 0; i < quant::kDynamicDecades; ++i) {
      const quant::DynamicLine line = quant::line_of_decade(i, kWithSigns);
      slopes[i] = static_cast<float>(line.slope);
      offsets[i] = static_cast<float>(line.offset);
    }
  }
};

// As quantize_sixteen of quant/dynamic_lanes.h, of one fraction. zero: the code of 0.
template <bool kWithSigns>
__device__ uint8_t nearest_code(float fraction, const float* midpoints, int zero) {
  constexpr DecadeLines<kWithSigns> kLines;
  const float magnitude = fmaxf(kWithSigns ? fabsf(fraction) : fraction, quant::kSmallestDynamic);  // also for NaN
  float place = fmaf(kLines.slopes[0], magnitude, kLines.offsets[0]);
  for (int i = 1; i < quant::kDynamicDecades; ++i) {
    place = fminf(place, fmaf(kLines.slopes[i], magnitude, kLines.offsets[i]));
  }
  const int last = 254 - zero, estimate = static_cast<int>(place), rank = estimate < last ? estimate : last;
  // Bits have the order of magnitudes. Halfway between two codes the lower one is taken: of negative values that of the
  // larger magnitude.
  const unsigned negative = kWithSigns ? __float_as_uint(fraction) >> 31 : 0;
  const bool beyond = __float_as_uint(magnitude) + negative > __float_as_uint(midpoints[zero + rank]);
  const int steps = beyond ? rank + 1 : rank, code = negative != 0 ? zero - steps : zero + steps;
  return static_cast<uint8_t>(code > 0 ? code : 0);
}

// A block of codes and their scale, of which each thread of a warp has its share.
template <bool kWithSigns>
struct Codes {
  Pack<uint8_t, kEach> codes;
  float scale;

  // The code of 0 for what is missing: it is no block's largest magnitude.
  __device__ void load(const uint8_t* from, const float* scales, const Share& share, int zero) {
    codes = take(from, share, static_cast<uint8_t>(zero));
    scale = share.count > 0 ? scales[share.first / quant::kDynamicBlock] : 0;
  }
  __device__ EightFloats widen(const float* table) const {
    EightFloats wide;
    for (int i = 0; i < kEach; ++i) wide.at[i] = __fmul_rn(table[codes.at[i]], scale);
    return wide;
  }
  __device__ static void store(const EightFloats& values, const float* midpoints, int zero, uint8_t* to, float* scales,
                               const Share& share) {
    unsigned largest = 0;
    for (int i = 0; i < kEach; ++i) {
      const unsigned magnitude = __float_as_uint(values.at[i]) & 0x7fffffffu;
      largest = magnitude > largest ? magnitude : largest;
    }
    const float scale = quant::magnitude_of_bits(largest_of_warp(largest)), reciprocal = scale > 0 ? 1 / scale : 0;
    Pack<uint8_t, kEach> codes;
    for (int i = 0; i < kEach; ++i) {
      codes.at[i] = nearest_code<kWithSigns>(values.at[i] * reciprocal, midpoints, zero);
    }
    put(codes, to, share);
    if (threadIdx.x % kWarp == 0 && share.count > 0) scales[share.first / quant::kDynamicBlock] = scale;
  }
};

// Both moments as numbers of their own.
template <typename Moment>
struct Moments {
  Pack<Moment, kEach> first, second;

  __device__ explicit Moments(const MixedAdamWArguments&) {}
  __device__ static bool draws(bool to_nearest) { return sizeof(Moment) == sizeof(BFloat16) && !to_nearest; }
  __device__ void load(const UpdateRecord& parameter, const Share& share) {
    first = take<Moment>(parameter.first, share);
    second = take<Moment>(parameter.second, share);
  }
  __device__ EightFloats first_values() const { return widen(first); }
  __device__ EightFloats second_values() const { return widen(second); }
  __device__ void store(const EightFloats& new_first, const EightFloats& new_second, const Draws& draws,
                        const UpdateRecord& parameter, const Share& share) const {
    put(rounded_to_nearest<Moment>(new_first), parameter.first, share);
    const bool by_chance = parameter.nearest_moments == 0;
    put(rounded_from(new_second, draws, by_chance, kMomentBits, Moment()), parameter.second, share);
  }
};

struct SharedTable {
  float values[256], midpoints[256];
  int zero;

  __device__ void fill(const DynamicTable& table) {
    values[threadIdx.x] = table.values_256[threadIdx.x];
    if (threadIdx.x < 255) midpoints[threadIdx.x] = table.midpoints_255[threadIdx.x];
    if (threadIdx.x == 0) zero = table.zero;
  }
};
static_assert(kUpdateThreads == 256, "each fills in one number of a table");

// Both as codes.
template <>
struct Moments<uint8_t> {
  const SharedTable *first_table, *second_table;
  Codes<true> first;
  Codes<false> second;

  // All threads of a block.
  __device__ explicit Moments(const MixedAdamWArguments& arguments) {
    __shared__ SharedTable tables[2];
    tables[0].fill(arguments.first_table);
    tables[1].fill(arguments.second_table);
    __syncthreads();
    first_table = &tables[0];
    second_table = &tables[1];
  }
  __device__ static bool draws(bool) { return false; }
  __device__ void load(const UpdateRecord& parameter, const Share& share) {
    first.load(static_cast<const uint8_t*>(parameter.first), parameter.first_scales, share, first_table->zero);
    second.load(static_cast<const uint8_t*>(parameter.second), parameter.second_scales, share, second_table->zero);
  }
  __device__ EightFloats first_values() const { return first.widen(first_table->values); }
  __device__ EightFloats second_values() const { return second.widen(second_table->values); }
  // All threads of a warp.
  __device__ void store(const EightFloats& new_first, const EightFloats& new_second, const Draws&,
                        const UpdateRecord& parameter, const Share& share) const {
    first.store(new_first, first_table->midpoints, first_table->zero, static_cast<uint8_t*>(parameter.first),
                parameter.first_scales, share);
    second.store(new_second, second_table->midpoints, second_table->zero, static_cast<uint8_t*>(parameter.second),
                 parameter.second_scales, share);
  }
};

template <typename Weight>
__device__ bool whole_accesses(const UpdateRecord& parameter) {
  const auto begins = reinterpret_cast<uintptr_t>(parameter.stored) | reinterpret_cast<uintptr_t>(parameter.gradient);
  return begins % sizeof(Pack<Weight, kEach>) == 0;
}

// One chunk of a parameter, by a block. Moment: float, BFloat16, or uint8_t for codes. The optimizer's own tensors
// begin where any access may.
template <typename Weight, typename Moment>
__device__ void update(const MixedAdamWArguments& arguments, const UpdateRecord& parameter, const Chunk& chunk) {
  const bool aligned = whole_accesses<Weight>(parameter), by_chance = parameter.stochastic != 0,
             from_masters = parameter.masters != nullptr && parameter.masters_unset == 0,
             draws_bits = by_chance || Moments<Moment>::draws(parameter.nearest_moments != 0);
  const float factor = arguments.factor == nullptr ? 1 : *arguments.factor,
              keep = parameter.decays != 0 ? arguments.keep : 1;
  Moments<Moment> moments(arguments);
  for (int start = 0; start < chunk.count; start += kEachTime) {
    const int first = start + static_cast<int>(threadIdx.x) * kEach, left = chunk.count - first;
    const int count = left >= kEach ? kEach : left > 0 ? left : 0;
    const Share share = {chunk.first + first, count, aligned && count == kEach};
    const Pack<Weight, kEach> stored = take<Weight>(parameter.stored, share);
    const Pack<Weight, kEach> gradient = take<Weight>(parameter.gradient, share);
    moments.load(parameter, share);
    EightFloats weights = from_masters ? take<float>(parameter.masters, share) : widen(stored);
    EightFloats m = moments.first_values(), v = moments.second_values();
    for (int i = 0; i < kEach; ++i) {
      const float g = __fmul_rn(widen(gradient.at[i]), factor);
      m.at[i] = fmaf(arguments.change1, g - m.at[i], m.at[i]);
      v.at[i] = fmaf(arguments.beta2, v.at[i], arguments.change2 * g * g);
      const float root = approximate_quotient(approximate_root(v.at[i]), arguments.root_second) + arguments.epsilon;
      weights.at[i] = fmaf(keep, weights.at[i], -approximate_quotient(arguments.rate * m.at[i], root));
    }
    Draws draws = {};
    if (draws_bits) draws = draw_for(share, parameter.draws);
    if (parameter.masters != nullptr) put(weights, parameter.masters, share);
    put(rounded_from(weights, draws, by_chance, kWeightBits, Weight()), parameter.stored, share);
    moments.store(m, v, draws, parameter, share);
  }
}

template <typename Weight>
__device__ void update(const MixedAdamWArguments& arguments, const UpdateRecord& parameter, const Chunk& chunk) {
  switch (static_cast<MomentType>(parameter.moments)) {
    case MomentType::kF32:
      return update<Weight, float>(arguments, parameter, chunk);
    case MomentType::kBF16:
      return update<Weight, BFloat16>(arguments, parameter, chunk);
    case MomentType::kCodes:
      return update<Weight, uint8_t>(arguments, parameter, chunk);
  }
}

// Parameters of any types: a block has one kind.
__global__ void __launch_bounds__(kUpdateThreads, 4)
    mixed_adamw(const __grid_constant__ MixedAdamWArguments arguments) {
  const Chunk chunk = chunk_of<kUpdateChunk>(arguments.parameters, arguments.count);
  const UpdateRecord& parameter = arguments.parameters[chunk.place];
  return parameter.narrow_weights != 0 ? update<BFloat16>(arguments, parameter, chunk)
                                       : update<float>(arguments, parameter, chunk);
}

}  // namespace fathom::ops::cuda
