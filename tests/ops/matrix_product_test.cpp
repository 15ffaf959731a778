// LibTorch's products of BF16 matrices where fathom multiplies them: against double precision, in every order of
// memory, the same bits with any number of threads, and the scratch that is predicted.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "ledger/ledger.h"
#include "ops/amx_product.h"
#include "phantom/kernel_scratch.h"
#include "tests/ops/threads.h"

namespace fathom::ops {
namespace {

constexpr const char* kNoAmx = "this processor has no AMX, or oneDNN is kept from it";

bool has_amx() { return at::native::cpublas::could_pack(at::kBFloat16); }

enum class Order { kRows, kColumns, kRowsWithGaps, kColumnsWithGaps };
constexpr std::array kOrders = {Order::kRows, Order::kColumns, Order::kRowsWithGaps, Order::kColumnsWithGaps};

at::Tensor draw(int64_t rows, int64_t columns, Order order) {
  const bool gaps = order == Order::kRowsWithGaps || order == Order::kColumnsWithGaps;
  const bool transposed = order == Order::kColumns || order == Order::kColumnsWithGaps;
  if (transposed) std::swap(rows, columns);
  const at::Tensor wide = at::randn({rows, columns + (gaps ? 5 : 0)}).to(at::kBFloat16);
  const at::Tensor drawn = gaps ? wide.narrow(1, 3, columns) : wide;
  return transposed ? drawn.t() : drawn;
}

struct Sides {
  int64_t m, k, n;
};
// Whole tiles, none whole, several depths, several pieces each way.
constexpr std::array kSides = {Sides{64, 64, 64},  Sides{511, 129, 67},   Sides{77, 333, 95},
                               Sides{600, 70, 80}, Sides{100, 1000, 700}, Sides{65, 2000, 1100}};

// Of a sum of k products, rounded to BF16: half a unit of the last place, and FP32's error of the sum.
void expect_product(const at::Tensor& out, const at::Tensor& x, const at::Tensor& y) {
  const at::Tensor exact = at::mm(x.to(at::kDouble), y.to(at::kDouble));
  const at::Tensor largest = at::mm(x.to(at::kDouble).abs(), y.to(at::kDouble).abs());
  const double fp32 = static_cast<double>(x.size(1)) * std::numeric_limits<float>::epsilon();
  const at::Tensor allowed = exact.abs() / 256 + largest * fp32;
  EXPECT_TRUE(at::all((out.to(at::kDouble) - exact).abs() <= allowed).item<bool>())
      << x.sizes() << " x " << y.sizes() << ", strides " << x.strides() << " and " << y.strides();
}

TEST(MatrixProduct, IsRoundedOnceFromTheExactOne) {
  at::manual_seed(3);
  for (const auto& [m, k, n] : kSides) {
    for (const Order x_order : kOrders) {
      for (const Order y_order : kOrders) {
        const at::Tensor x = draw(m, k, x_order), y = draw(k, n, y_order);
        expect_product(at::mm(x, y), x, y);
      }
    }
  }
}

TEST(MatrixProduct, WritesNothingBesideItsResult) {
  at::manual_seed(4);
  const at::Tensor x = draw(511, 129, Order::kRows), y = draw(129, 67, Order::kColumns);
  const at::Tensor all = at::full({513, 70}, 7.0, at::kBFloat16);
  at::Tensor out = all.narrow(0, 1, 511).narrow(1, 2, 67);
  at::mm_out(out, x, y);
  expect_product(out, x, y);
  out.fill_(7.0);
  EXPECT_TRUE(at::equal(all, at::full({513, 70}, 7.0, at::kBFloat16)));
}

TEST(MatrixProduct, HasTheSameBitsWithAnyNumberOfThreads) {
  if (!has_amx()) GTEST_SKIP() << kNoAmx;
  at::manual_seed(5);
  const at::Tensor x = draw(300, 900, Order::kRows), y = draw(900, 800, Order::kColumns);
  const Threads one(1);
  const at::Tensor alone = at::mm(x, y);
  for (const int count : {1, 2, 3, 5}) {
    const Threads threads(count);
    EXPECT_TRUE(at::equal(at::mm(x, y), alone)) << count << " threads";
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
  at::mm(x, y);
  EXPECT_EQ(ledger.label().kernel_scratch, amx::product_scratch_bytes(256, 512, 2000));
  ledger.label();
  at::mm(x, draw(2000, 8, Order::kRows));  // an adapter's
  EXPECT_NE(ledger.label().kernel_scratch, amx::product_scratch_bytes(256, 8, 2000));
}

TEST(MatrixProduct, TakesNoMoreThanIsPredicted) {
  if (!has_amx()) GTEST_SKIP() << kNoAmx;
  ledger::Ledger& ledger = ledger::install_cpu();
  for (const int count : {1, 2, 3}) {
    const Threads threads(count);
    for (const auto& [m, k, n] : kSides) {
      const int64_t predicted = phantom::matrix_product_scratch_bytes({0, m, k, n, false, true});
      const at::Tensor y = draw(k, n, Order::kColumns);
      for (const int64_t rows : {m, m - 1, m / 2, int64_t{64}, int64_t{63}, int64_t{17}}) {
        const at::Tensor x = draw(rows, k, Order::kRows);
        ledger.label();
        at::mm(x, y);
        const int64_t taken = ledger.label().kernel_scratch;
        EXPECT_LE(taken, predicted) << rows << " of " << m << ", " << k << ", " << n;
      }
    }
  }
}

}  // namespace
}  // namespace fathom::ops
