// Whole products by lib/cpu/amx_product.h on LibTorch's threads.
#pragma once

#include "base/rounding.h"
#include "cpu/amx_product.h"

#ifdef FATHOM_AMX

#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>

namespace fathom::ops::amx {

// Whether the processor has tiles and this process may use them, for which LibTorch asks the kernel.
inline bool has_tiles() { return at::native::cpublas::could_pack(at::kBFloat16); }

// `batch` products of one size: product_at(i) is a Product or an Int8Product. The threads' scratch is taken from
// LibTorch's allocator and given back.
template <typename ProductAt>
void multiply_batch_on_threads(int64_t batch, const ProductAt& product_at) {
  at::init_num_threads();  // LibTorch's threads are a property of each thread
  const auto product = product_at(0);
  const int64_t m = product.x.rows, k = product.x.columns, n = product.y.columns;
  const int64_t threads = at::get_num_threads();
  const bool in_tiles = cpu::amx::are_in_tiles(product);
  const int64_t each = cpu::amx::product_scratch_bytes(m, n, k, in_tiles);
  const at::DataPtr memory = c10::GetCPUAllocator()->allocate(static_cast<size_t>(threads * each));
  const cpu::amx::Pieces pieces(m, n, k, divide_up(threads, batch), in_tiles);
  std::atomic<int64_t> next = 0;
  at::parallel_for(0, threads, 1, [&](int64_t thread, int64_t /*end*/) {
    const cpu::amx::TileScope tiles;
    char* scratch = static_cast<char*>(memory.get()) + thread * each;
    for (int64_t piece = next++; piece < batch * pieces.count; piece = next++) {
      cpu::amx::multiply_piece(product_at(piece / pieces.count), pieces, piece % pieces.count, scratch);
    }
  });
}

template <typename AnyProduct>
void multiply_on_threads(const AnyProduct& product) {
  multiply_batch_on_threads(1, [&](int64_t /*index*/) { return product; });
}

}  // namespace fathom::ops::amx

#endif
