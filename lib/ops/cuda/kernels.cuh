// The kernels themselves. Only what every CUDA compiler knows, and of a warp's own instructions none but an exchange in
// which its whole block takes part: the tests play kernels on the CPU, thread by thread (tests/ops/cuda_on_cpu.h).
#pragma once

#include <cstdint>

namespace fathom::ops::cuda {

constexpr int kWarp = 32;

// BF16 is the upper half of an FP32.
struct BFloat16 {
  uint16_t bits;
};

__device__ inline float widen(float value) { return value; }
__device__ inline float widen(BFloat16 value) { return __uint_as_float(static_cast<unsigned>(value.bits) << 16); }

template <typename T>
__device__ T rounded(float value);
template <>
__device__ inline float rounded<float>(float value) {
  return value;
}
// To nearest, ties to even; NaN stays NaN.
template <>
__device__ inline BFloat16 rounded<BFloat16>(float value) {
#if __CUDA_ARCH__ >= 800
  BFloat16 made;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(made.bits) : "f"(value));
  return made;
#else
  const unsigned bits = __float_as_uint(value);
  if (value != value) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
#endif
}

// So many elements as one access to memory moves.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T at[kCount];
};

__device__ inline int64_t thread_of_grid() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }

template <typename T, int kCount>
__global__ void swiglu(const T* gate, const T* up, T* out, int64_t packs) {
  const int64_t index = thread_of_grid();
  if (index >= packs) return;
  using P = Pack<T, kCount>;
  const P g = reinterpret_cast<const P*>(gate)[index], u = reinterpret_cast<const P*>(up)[index];
  P o;
  for (int i = 0; i < kCount; ++i) {
    const float x = widen(g.at[i]);
    o.at[i] = rounded<T>(x / (1 + expf(-x)) * widen(u.at[i]));
  }
  reinterpret_cast<P*>(out)[index] = o;
}

// d silu(x) / dx = s (1 + x (1 - s)) with s = sigmoid(x). out: null, or grad_out itself, or another.
template <typename T, int kCount>
__global__ void swiglu_backward(const T* grad_out, const T* gate, const T* up, T* grad_gate, T* grad_up, T* out,
                                int64_t packs) {
  const int64_t index = thread_of_grid();
  if (index >= packs) return;
  using P = Pack<T, kCount>;
  const P d = reinterpret_cast<const P*>(grad_out)[index], g = reinterpret_cast<const P*>(gate)[index];
  const P u = reinterpret_cast<const P*>(up)[index];
  P of_gate, of_up, made;
  for (int i = 0; i < kCount; ++i) {
    const float x = widen(g.at[i]), upstream = widen(d.at[i]), grown = 1 + expf(-x), sigmoid = 1 / grown;
    made.at[i] = rounded<T>(x / grown * widen(u.at[i]));  // as swiglu has it, bit for bit
    of_up.at[i] = rounded<T>(upstream * x * sigmoid);
    of_gate.at[i] = rounded<T>(upstream * widen(u.at[i]) * sigmoid * (1 + x * (1 - sigmoid)));
  }
  reinterpret_cast<P*>(grad_gate)[index] = of_gate;
  reinterpret_cast<P*>(grad_up)[index] = of_up;
  if (out != nullptr) reinterpret_cast<P*>(out)[index] = made;
}

// A thread turns kCount neighbouring pairs of one head.
template <typename T, int kCount>
__global__ void rotate(const T* in, const float* cos, const float* sin, T* out, int64_t packs, int64_t heads,
                       int64_t positions, int64_t half_packs, float direction) {
  const int64_t index = thread_of_grid();
  if (index >= packs) return;
  using P = Pack<T, kCount>;
  using F = Pack<float, kCount>;
  const int64_t row = index / half_packs, pack = index % half_packs, position = row / heads % positions;
  const int64_t first = row * 2 * half_packs + pack, second = first + half_packs;
  const P a = reinterpret_cast<const P*>(in)[first], b = reinterpret_cast<const P*>(in)[second];
  const F c = reinterpret_cast<const F*>(cos)[position * half_packs + pack];
  const F s = reinterpret_cast<const F*>(sin)[position * half_packs + pack];
  P turned_a, turned_b;
  for (int i = 0; i < kCount; ++i) {
    const float x = widen(a.at[i]), y = widen(b.at[i]), sine = direction * s.at[i];
    turned_a.at[i] = rounded<T>(x * c.at[i] - y * sine);
    turned_b.at[i] = rounded<T>(y * c.at[i] + x * sine);
  }
  reinterpret_cast<P*>(out)[first] = turned_a;
  reinterpret_cast<P*>(out)[second] = turned_b;
}

constexpr int kLossThreads = 512;  // a power of two

// The largest of what a block's threads saw, and the sum of exp(value - largest).
struct Normaliser {
  float largest, sum;
};

__device__ inline Normaliser joined(Normaliser a, Normaliser b) {
  if (b.sum == 0) return a;
  if (a.sum == 0) return b;
  const float largest = a.largest > b.largest ? a.largest : b.largest;
  return {largest, a.sum * expf(a.largest - largest) + b.sum * expf(b.largest - largest)};
}

// Once over a row (Milakov and Gimelshein 2018, arXiv 1805.02867). All threads of the block get the answer.
template <typename T, int kCount>
__device__ Normaliser normaliser(const T* row, int64_t packs) {
  using P = Pack<T, kCount>;
  Normaliser mine = {-INFINITY, 0};
  for (int64_t pack = threadIdx.x; pack < packs; pack += kLossThreads) {
    const P values = reinterpret_cast<const P*>(row)[pack];
    for (int i = 0; i < kCount; ++i) {
      const float value = widen(values.at[i]);
      if (value > mine.largest) {
        mine = {value, mine.sum * expf(mine.largest - value) + 1};
      } else if (value != -INFINITY) {
        mine.sum += expf(value - mine.largest);
      }
    }
  }
  __shared__ Normaliser shared[kLossThreads];
  shared[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned distance = kLossThreads / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance) shared[threadIdx.x] = joined(shared[threadIdx.x], shared[threadIdx.x + distance]);
    __syncthreads();
  }
  return shared[0];
}

// A block for each row.
template <typename T, int kCount>
__global__ void cross_entropy(T* logits, const int64_t* targets, int64_t ignored, float gradient_scale, float* losses,
                              int64_t packs) {
  using P = Pack<T, kCount>;
  const int64_t row = blockIdx.x, target = targets[row], vocabulary = packs * kCount;
  T* values = logits + row * vocabulary;
  const bool counts = target != ignored;
  Normaliser all = {0, 1};
  if (counts) all = normaliser<T, kCount>(values, packs);
  if (threadIdx.x == 0) {
    const bool is_token = target >= 0 && target < vocabulary;
    losses[row] = !counts ? 0 : is_token ? logf(all.sum) + all.largest - widen(values[target]) : NAN;
  }
  if (gradient_scale == 0) return;
  __syncthreads();  // the target's logit has been read
  const float share = gradient_scale / all.sum;
  for (int64_t pack = threadIdx.x; pack < packs; pack += kLossThreads) {
    P now = reinterpret_cast<P*>(values)[pack];
    for (int i = 0; i < kCount; ++i) {
      const float one_hot = pack * kCount + i == target ? gradient_scale : 0;
      now.at[i] = rounded<T>(counts ? expf(widen(now.at[i]) - all.largest) * share - one_hot : 0);
    }
    reinterpret_cast<P*>(values)[pack] = now;
  }
}

}  // namespace fathom::ops::cuda
