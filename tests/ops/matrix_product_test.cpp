// Products of matrices in 16 bits where fathom multiplies them: against double precision, in every order of
// memory, in tiles the same bits with any number of threads, and the scratch that is predicted.
#include "ops/linear/matrix_product.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "cpu/amx_product.h"
#include "ledger/ledger.h"
#include "ops/linear/widened_product.h"
#include "phantom/kernel_scratch.h"
#include "tests/ops/threads.h"

namespace fathom::ops::matrix_product_test {
namespace {

constexpr const char* kNoAmx = "this processor has no AMX, or oneDNN is kept from it";

bool has_amx() { return at::native::cpublas::could_pack(at::kBFloat16); }

enum class Order { kRows, kColumns, kRowsWithGaps, kColumnsWithGaps };
constexpr std::array kOrders = {Order::kRows, Order::kColumns, Order::kRowsWithGaps, Order::kColumnsWithGaps};

at::Tensor draw(int64_t rows, int64_t columns, Order order, at::ScalarType type = at::kBFloat16) {
  const bool gaps = order == Order::kRowsWithGaps || order == Order::kColumnsWithGaps;
  const bool transposed = order == Order::kColumns || order == Order::kColumnsWithGaps;
  if (transposed) std::swap(rows, columns);
  const at::Tensor wide = at::randn({rows, columns + (gaps ? 5 : 0)}).to(type);
  const at::Tensor drawn = gaps ? wide.narrow(1, 3, columns) : wide;
  return transposed ? drawn.t() : drawn;
}

struct Sides {
  int64_t m, k, n;
};
// Whole tiles, none whole, several depths, several pieces each way.
constexpr std::array kSides = {Sides{64, 64, 64},  Sides{511, 129, 67},   Sides{77, 333, 95},
                               Sides{600, 70, 80}, Sides{100, 1000, 700}, Sides{65, 2000, 1100}};

// Of a sum of k products, and of `more`, rounded to 16 bits: half a unit of the last place, and FP32's error of the
// sum.
void expect_product(const at::Tensor& out, const at::Tensor& x, const at::Tensor& y, const at::Tensor& more = {}) {
  const double rounding = out.scalar_type() == at::kHalf ? 1.0 / 2048 : 1.0 / 256;
  at::Tensor exact = at::mm(x.to(at::kDouble), y.to(at::kDouble));
  if (more.defined()) exact += more;
  const at::Tensor largest = at::mm(x.to(at::kDouble).abs(), y.to(at::kDouble).abs());
  const double fp32 = static_cast<double>(x.size(1)) * std::numeric_limits<float>::epsilon();
  const at::Tensor allowed = exact.abs() * rounding + largest * fp32;
  EXPECT_TRUE(at::all((out.to(at::kDouble) - exact).abs() <= allowed).item<bool>())
      << x.sizes() << " x " << y.sizes() << ", strides " << x.strides() << " and " << y.strides();
}

TEST(MatrixProduct, IsRoundedOnceFromTheExactOne) {
  at::manual_seed(3);
  for (const auto& [m, k, n] : kSides) {
    for (const Order x_order : kOrders) {
      for (const Order y_order : kOrders) {
        const at::Tensor x = draw(m, k, x_order), y = draw(k, n, y_order);
        expect_product(ops::mm(x, y), x, y);
      }
    }
  }
}

TEST(MatrixProduct, IsAddedBeforeItIsRounded) {
  at::manual_seed(12);
  for (const auto& [m, k, n] : kSides) {
    for (const Order order : kOrders) {
      const at::Tensor x = draw(m, k, order), y = draw(k, n, kOrders[kOrders.size() - 1 - size_t(order)]);
      const at::Tensor all = draw(m + 2, n + 3, Order::kRows), before = all.clone();
      at::Tensor sum = all.narrow(0, 1, m).narrow(1, 2, n);
      const at::Tensor added = sum.to(at::kDouble);
      ops::addmm_(sum, x, y);
      expect_product(sum, x, y, added);
      sum.copy_(added);
      EXPECT_TRUE(at::equal(all, before)) << "something beside the sum was written";
    }
  }
}

TEST(MatrixProduct, WritesNothingBesideItsResult) {
  at::manual_seed(4);
  const at::Tensor x = draw(511, 129, Order::kRows), y = draw(129, 67, Order::kColumns);
  const at::Tensor all = at::full({513, 70}, 7.0, at::kBFloat16);
  at::Tensor out = all.narrow(0, 1, 511).narrow(1, 2, 67);
  ops::mm_out(out, x, y);
  expect_product(out, x, y);
  out.fill_(7.0);
  EXPECT_TRUE(at::equal(all, at::full({513, 70}, 7.0, at::kBFloat16)));
}

TEST(MatrixProduct, HasTheSameBitsWithAnyNumberOfThreads) {
  if (!has_amx()) GTEST_SKIP() << kNoAmx;
  at::manual_seed(5);
  const at::Tensor x = draw(300, 900, Order::kRows), y = draw(900, 800, Order::kColumns);
  const Threads one(1);
  const at::Tensor alone = ops::mm(x, y);
  for (const int count : {1, 2, 3, 5}) {
    const Threads threads(count);
    EXPECT_TRUE(at::equal(ops::mm(x, y), alone)) << count << " threads";
  }
}

// Told by its scratch, which oneDNN's product does not take.
TEST(MatrixProduct, TakesThePlaceOfLibTorchs) {
  if (!has_amx()) GTEST_SKIP() << kNoAmx;
  at::manual_seed(6);
  const Threads one(1);
  ledger::Ledger& ledger = ledger::install_cpu();
  const at::Tensor x = draw(256, 2000, Order::kRows), y = draw(2000, 512, Order::kRows);
  ledger.label();
  ops::mm(x, y);
  EXPECT_EQ(ledger.label().kernel_scratch, cpu::amx::product_scratch_bytes(256, 512, 2000));
  ledger.label();
  ops::mm(x, draw(2000, 8, Order::kRows));  // an adapter's
  EXPECT_NE(ledger.label().kernel_scratch, cpu::amx::product_scratch_bytes(256, 8, 2000));
}

TEST(MatrixProduct, TakesNoMoreThanIsPredicted) {
  if (!has_amx()) GTEST_SKIP() << kNoAmx;
  ledger::Ledger& ledger = ledger::install_cpu();
  for (const int count : {1, 2, 3}) {
    const Threads threads(count);
    for (const auto& [m, k, n] : kSides) {
      const int64_t predicted =
          phantom::matrix_product_scratch_bytes({.m = m, .k = k, .n = n, .y_transposed = true, .own = true});
      const at::Tensor y = draw(k, n, Order::kColumns);
      for (const int64_t rows : {m, m - 1, m / 2, int64_t{64}, int64_t{63}, int64_t{17}}) {
        const at::Tensor x = draw(rows, k, Order::kRows);
        ledger.label();
        ops::mm(x, y);
        const int64_t taken = ledger.label().kernel_scratch;
        EXPECT_LE(taken, predicted) << rows << " of " << m << ", " << k << ", " << n;
      }
    }
  }
}

// Matrices of a batch as attention has them: one after the other, or as the heads of tokens, which leaves gaps.
at::Tensor draw_batch(int64_t batch, int64_t rows, int64_t columns, bool heads, bool transposed) {
  if (transposed) std::swap(rows, columns);
  const at::Tensor drawn = heads ? at::randn({rows, batch, columns}).to(at::kBFloat16).transpose(0, 1)
                                 : at::randn({batch, rows, columns}).to(at::kBFloat16);
  return transposed ? drawn.transpose(1, 2) : drawn;
}

TEST(BatchOfProducts, IsRoundedOnceFromTheExactOnes) {
  at::manual_seed(10);
  constexpr int64_t kBatch = 5;
  for (const auto& [m, k, n] : {Sides{128, 64, 512}, Sides{130, 400, 65}, Sides{64, 20, 70}}) {
    for (const int order : {0, 1, 2, 3, 4, 5, 6, 7}) {
      const at::Tensor x = draw_batch(kBatch, m, k, (order & 1) != 0, (order & 2) != 0);
      const at::Tensor y = draw_batch(kBatch, k, n, (order & 4) != 0, (order & 2) == 0);
      const at::Tensor out = ops::bmm(x, y);
      EXPECT_TRUE(out.is_contiguous());
      for (int64_t i = 0; i < kBatch; ++i) expect_product(out[i], x[i], y[i]);
    }
  }
}

TEST(BatchOfProducts, HasTheSameBitsWithAnyNumberOfThreads) {
  if (!has_amx()) GTEST_SKIP() << kNoAmx;
  at::manual_seed(11);
  const at::Tensor x = draw_batch(3, 300, 400, true, false), y = draw_batch(3, 400, 600, true, true);
  const Threads one(1);
  const at::Tensor alone = ops::bmm(x, y);
  for (const int count : {1, 2, 3, 5, 8}) {
    const Threads threads(count);
    EXPECT_TRUE(at::equal(ops::bmm(x, y), alone)) << count << " threads";
  }
}

// No copy of what has gaps, which LibTorch would make.
TEST(BatchOfProducts, TakesTheScratchOfItsThreads) {
  if (!has_amx()) GTEST_SKIP() << kNoAmx;
  ledger::Ledger& ledger = ledger::install_cpu();
  const at::Tensor x = draw_batch(12, 128, 64, true, false), y = draw_batch(12, 64, 256, true, true);
  for (const int count : {1, 2, 3}) {
    const Threads threads(count);
    ledger.label();
    const at::Tensor out = ops::bmm(x, y);
    const int64_t taken = ledger.label().kernel_scratch;
    EXPECT_EQ(taken, count * cpu::amx::product_scratch_bytes(128, 256, 64));
    EXPECT_GE(phantom::matrix_product_scratch_bytes(
                  {.batch = 12, .m = 128, .k = 64, .n = 256, .y_transposed = true, .own = true}),
              taken);
  }
}

// Of one block, and of several each way with rests.
constexpr std::array kWidened = {Sides{17, 333, 95}, Sides{1100, 1030, 1030}, Sides{40, 2100, 2}, Sides{1, 5000, 3}};
constexpr std::array kNarrow = {at::kBFloat16, at::kHalf};

TEST(WidenedProduct, IsRoundedOnceFromTheExactOne) {
  at::manual_seed(8);
  for (const at::ScalarType type : kNarrow) {
    for (const auto& [m, k, n] : kWidened) {
      for (const Order order : kOrders) {
        const at::Tensor x = draw(m, k, order, type), y = draw(k, n, kOrders[kOrders.size() - 1 - size_t(order)], type);
        const at::Tensor all = at::full({n + 2, m + 3}, 7.0, type);
        const at::Tensor out = all.narrow(0, 1, n).narrow(1, 2, m).t();
        multiply_widened(x, y, out);
        expect_product(out, x, y);
        out.fill_(7.0);
        EXPECT_TRUE(at::equal(all, at::full_like(all, 7.0))) << "something beside the result was written";
      }
    }
  }
}

TEST(WidenedProduct, AddsWhatItIsGiven) {
  at::manual_seed(9);
  for (const at::ScalarType type : kNarrow) {
    const at::Tensor x = draw(1100, 1030, Order::kRows, type), y = draw(1030, 37, Order::kColumns, type);
    const at::Tensor bias_N = draw(1, 37, Order::kRows, type), rows_MN = bias_N.expand({1100, 37});
    const at::Tensor out = at::empty({1100, 37}, x.options());
    multiply_widened(x, y, out, &rows_MN, 2);
    expect_product(out, 2 * x, y, bias_N.to(at::kDouble));
    const at::Tensor before = out.clone();
    multiply_widened(x, y, out, &out);
    expect_product(out, x, y, before.to(at::kDouble));
  }
}

// Told by the scratch, which LibTorch's own products of such numbers do not take: those of mm and addmm, in each of
// their forms.
TEST(WidenedProduct, TakesThePlaceOfLibTorchs) {
  ledger::Ledger& ledger = ledger::install_cpu();
  int64_t tried = 0;
  for (const at::ScalarType type : kNarrow) {
    if (!widens_products(type)) continue;
    ++tried;
    const at::Tensor x = draw(70, 300, Order::kRows, type), y = draw(300, 50, Order::kColumns, type);
    const at::Tensor bias_N = draw(1, 50, Order::kRows, type).view({-1});
    at::Tensor out = at::zeros({70, 50}, x.options());
    const auto expect_taken = [&](bool adds, const auto& multiply) {
      ledger.label();
      const at::Tensor result = multiply();
      constexpr int64_t kBlocks = int64_t{70 * 300 + 300 * 50 + 70 * 50} * 4;
      EXPECT_EQ(ledger.label().kernel_scratch, kBlocks);
      expect_product(result, x, y, adds ? bias_N.to(at::kDouble) : at::Tensor());
      EXPECT_EQ(phantom::matrix_product_scratch_bytes({0, 70, 300, 50, false, true, adds, /*own=*/true, type}),
                kBlocks);
    };
    expect_taken(false, [&] { return ops::mm(x, y); });
    expect_taken(false, [&] { return ops::mm_out(out, x, y); });
    expect_taken(true, [&] { return ops::addmm(bias_N, x, y); });
    out = bias_N.expand({70, 50}).contiguous();
    expect_taken(true, [&] { return ops::addmm_(out, x, y); });
    expect_product(ops::addmm(bias_N.view({1, 50}), x, y, 2), 2 * x, y, bias_N.to(at::kDouble));
    at::Tensor row_1N = bias_N.view({1, 50}).clone();
    EXPECT_THROW(ops::addmm_(row_1N, x, y), c10::Error) << "the sum would change its shape";
  }
  if (tried == 0) GTEST_SKIP() << "this processor has instructions for both types of 16 bits";
}

TEST(MatrixProduct, IsLeftToTheDeviceElsewhere) {
  const at::Tensor x = at::empty({3, 4}, at::kMeta), y = at::empty({4, 5}, at::kMeta),
                   bias_N = at::empty({5}, at::kMeta);
  EXPECT_EQ(ops::mm(x, y).sizes(), at::IntArrayRef({3, 5}));
  EXPECT_EQ(ops::addmm(bias_N, x, y).sizes(), at::IntArrayRef({3, 5}));
  EXPECT_THROW(ops::mm(y, x), c10::Error);
  at::Tensor rows = at::empty({3, 5}, at::kMeta), row = rows.narrow(0, 1, 1);
  EXPECT_EQ(ops::addmm_(row, x.narrow(0, 1, 1), y).sizes(), at::IntArrayRef({1, 5}));
  EXPECT_THROW(ops::addmm_(row, x, y), c10::Error) << "the sum would change its shape";
  EXPECT_THROW(ops::addmm_(rows, x.narrow(0, 1, 1), y.t()), c10::Error);
  EXPECT_EQ(ops::bmm(x.expand({2, 3, 4}), y.expand({2, 4, 5})).sizes(), at::IntArrayRef({2, 3, 5}));
  EXPECT_THROW(ops::bmm(x.expand({2, 3, 4}), y.expand({3, 4, 5})), c10::Error);
}

TEST(WidenedProduct, IsLeftToLibTorchWhereItIsSmall) {
  ledger::Ledger& ledger = ledger::install_cpu();
  for (const at::ScalarType type : kNarrow) {
    const at::Tensor x = draw(16, 16, Order::kRows, type), y = draw(16, 16, Order::kRows, type);
    ledger.label();
    const at::Tensor result = ops::mm(x, y);
    EXPECT_EQ(ledger.label().kernel_scratch, 0);
    expect_product(result, x, y);
  }
}

}  // namespace
}  // namespace fathom::ops::matrix_product_test
