// The scratch memory that is predicted for the CPU's kernels against what they take.
#include "phantom/kernel_scratch.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/CPUBlas.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <thread>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "ledger/ledger.h"
#include "tests/ops/threads.h"

namespace {
bool plays_amx = false;
}  // namespace

// Stands before LibTorch's own: what flash attention does where there is AMX can be measured without it.
namespace at::native::cpublas {
bool could_pack(ScalarType type) {
  static const auto ask_libtorch =
      reinterpret_cast<bool (*)(ScalarType)>(dlsym(RTLD_NEXT, "_ZN2at6native7cpublas10could_packEN3c1010ScalarTypeE"));
  return plays_amx ? type == at::kBFloat16 : ask_libtorch(type);
}
}  // namespace at::native::cpublas

namespace fathom::phantom {
namespace {

constexpr const char* kNotMeasured = "kernel scratch has not been measured on this processor's instruction set";

// What `call` takes and gives back on the CPU within kernels.
template <typename Call>
int64_t measured(const Call& call) {
  ledger::Ledger& ledger = ledger::install_cpu();
  const at::NoGradGuard no_gradients;
  ledger.label();
  call();
  return ledger.label().kernel_scratch;
}

at::Tensor matrices(int64_t batch, int64_t rows, int64_t columns, bool transposed) {
  const auto options = at::TensorOptions().dtype(at::kBFloat16);
  const at::Tensor stored =
      transposed ? at::ones({batch, columns, rows}, options) : at::ones({batch, rows, columns}, options);
  const at::Tensor seen = transposed ? stored.transpose(1, 2) : stored;
  return batch == 1 ? seen[0] : seen;
}

// As T5's table of distances gets it, whose rows are read as columns.
TEST(KernelScratch, OfAnEmbeddingsGradientIsItsCopy) {
  const at::Tensor ids_N = at::zeros({920}, at::kLong);
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::embedding_dense_backward", "");
  for (const int64_t length : {393, 920}) {  // the longer one is copied through a square
    for (const at::Tensor& gradient_NH :
         {at::ones({5, length}).t(), at::ones({5, length + 3}).narrow(1, 0, length).t(), at::ones({length, 5})}) {
      const at::Tensor of_length = ids_N.narrow(0, 0, length);
      const int64_t taken = measured([&] { at::embedding_dense_backward(gradient_NH, of_length, 32, -1, false); });
      EXPECT_EQ(taken > 0, !gradient_NH.is_contiguous());
      const std::vector<c10::IValue> arguments = {gradient_NH, of_length, 32, -1, false};
      EXPECT_EQ(kernel_scratch_bytes(op, arguments), taken);
    }
  }
}

TEST(KernelScratch, OfATransposedCopyIsItsSquare) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kByte}) {
    for (const auto& [rows, columns] : {std::pair{60, 60}, {59, 61}, {900, 4}, {5, 700}}) {
      const at::Tensor matrix = at::ones({rows, columns}, type), out = at::empty({columns, rows}, type);
      EXPECT_EQ(copy_scratch_bytes(matrix.t(), out), measured([&] { at::Tensor(out).copy_(matrix.t()); }))
          << rows << " x " << columns << " of " << type;
    }
  }
}

TEST(KernelScratch, OfAProductIsWhatOneDnnTakes) {
  if (!kernel_scratch_was_measured_here()) GTEST_SKIP() << kNotMeasured;
  ledger::install_cpu();
  for (const int count : {1, 2, 3}) {
    const Threads threads(count);
    for (const auto& [batch, m, k, n] : std::vector<std::array<int64_t, 4>>{{1, 64, 96, 200},
                                                                            {1, 5, 95, 96},
                                                                            {1, 199, 60, 137},
                                                                            {1, 74, 1100, 72},
                                                                            {6, 33, 8, 33},
                                                                            {6, 101, 101, 20}}) {
      for (const int layout : {0, 1, 2, 3}) {
        const bool x_transposed = (layout & 1) != 0, y_transposed = (layout & 2) != 0;
        const at::Tensor x = matrices(batch, m, k, x_transposed), y = matrices(batch, k, n, y_transposed);
        const int64_t taken = measured([&] { at::matmul(x, y); });
        const int64_t predicted =
            matrix_product_scratch_bytes({batch == 1 ? 0 : batch, m, k, n, x_transposed, y_transposed});
        EXPECT_GE(predicted, taken);
        EXPECT_TRUE(predicted == taken || multiplies_with_amx())
            << batch << " of " << m << " x " << k << " x " << n << ", layout " << layout << ", " << count << " threads";
      }
    }
  }
}

TEST(KernelScratch, OfALargeProductBoundsThoseOfFewerRows) {
  if (!kernel_scratch_was_measured_here()) GTEST_SKIP() << kNotMeasured;
  ledger::install_cpu();
  for (const auto& [count, most, k, n] : std::vector<std::array<int64_t, 4>>{{1, 300, 64, 128}, {4, 840, 144, 334}}) {
    const Threads threads(static_cast<int>(count));
    const int64_t predicted = matrix_product_scratch_bytes({0, most, k, n, false, true});
    const at::Tensor y = matrices(1, k, n, true);
    for (const int64_t rows : {most, most - 10, most * 3 / 5, int64_t{512}, int64_t{257}, int64_t{256}, int64_t{200}}) {
      if (rows > most) continue;
      const at::Tensor x = matrices(1, rows, k, false);
      EXPECT_GE(predicted, measured([&] { at::mm(x, y); })) << rows << " rows, " << count << " threads";
    }
  }
}

// As attention by its formula multiplies them: of three rows, of which two threads share the ninth matrix, and of two.
TEST(KernelScratch, OfManyMatricesBoundsThatOfFewer) {
  if (!kernel_scratch_was_measured_here()) GTEST_SKIP() << kNotMeasured;
  ledger::install_cpu();
  for (const int count : {2, 3, 4}) {
    const Threads threads(count);
    const int64_t of_keys = matrix_product_scratch_bytes({9, 260, 520, 32, true, false});
    const int64_t of_scores = matrix_product_scratch_bytes({9, 260, 32, 260, false, true});
    for (const int64_t fewer : {1, 2, 3, 4, 6, 8, 9}) {
      for (const int64_t keys : {101, 197, 260}) {
        const at::Tensor pairs = matrices(fewer, keys, 2 * keys, true), queries = matrices(fewer, 2 * keys, 32, false);
        EXPECT_GE(of_keys, measured([&] { at::matmul(pairs, queries); })) << fewer << " of " << keys << " keys";
        const at::Tensor some = matrices(fewer, keys, 32, false), turned = matrices(fewer, 32, keys, true);
        EXPECT_GE(of_scores, measured([&] { at::matmul(some, turned); })) << fewer << " of " << keys << " keys";
      }
    }
  }
}

// oneDNN keeps one kernel for all layouts of a matrix of one column or row: the first that it was asked for. Of two
// widths that take the same, one is asked for and the other multiplied.
TEST(KernelScratch, OfAnOuterProductIsThatOfItsOwnLayout) {
  if (!kernel_scratch_was_measured_here()) GTEST_SKIP() << kNotMeasured;
  const Threads threads(1);
  ledger::install_cpu();
  const at::Tensor x = matrices(1, 32128, 1, true), y = matrices(1, 1, 512, false);
  EXPECT_GE(matrix_product_scratch_bytes({0, 32128, 1, 384, true, false}), measured([&] { at::mm(x, y); }));
}

// With AMX the blocks of the last layer's product are larger for 50 rows than for 303, and rows in whole tiles need no
// copy.
TEST(KernelScratch, OfAProductBoundsThoseOfSmallerBatches) {
  if (!multiplies_with_amx()) GTEST_SKIP() << "this processor has no AMX, or oneDNN is kept from it";
  const Threads threads(1);
  ledger::install_cpu();
  const at::Tensor head = matrices(1, 2669, 96, false);
  const int64_t of_input = matrix_product_scratch_bytes({0, 303, 2669, 96, false, false});
  const int64_t of_weight = matrix_product_scratch_bytes({0, 247, 320, 96, true, false});
  const int64_t of_attention = matrix_product_scratch_bytes({8, 192, 192, 20, true, false});
  for (const int64_t rows : {3, 17, 50, 64, 101, 128, 172, 191, 192, 250, 303}) {
    const at::Tensor gradient = matrices(1, rows, 2669, false);
    EXPECT_GE(of_input, measured([&] { at::mm(gradient, head); })) << rows;
    const at::Tensor transposed = matrices(1, 247, rows, true), x = matrices(1, rows, 96, false);
    EXPECT_GE(of_weight, measured([&] { at::mm(transposed, x); })) << rows;
    if (rows > 192) continue;
    const at::Tensor pairs = matrices(8, rows, rows, true), queries = matrices(8, rows, 20, false);
    EXPECT_GE(of_attention, measured([&] { at::bmm(pairs, queries); })) << rows;
  }
}

// One document's heads, of a row of several: LibTorch copies them for oneDNN.
TEST(KernelScratch, OfMatricesWithGapsHasTheirCopies) {
  if (!kernel_scratch_was_measured_here()) GTEST_SKIP() << kNotMeasured;
  const Threads threads(1);
  ledger::install_cpu();
  const auto options = at::TensorOptions().dtype(at::kBFloat16);
  const at::Tensor heads_HSE = at::ones({90, 4, 20}, options).narrow(0, 7, 60).transpose(0, 1);
  const at::Tensor pairs_HSS = at::ones({4, 60, 60}, options);
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::bmm", "out");
  for (const auto& operands :
       {std::pair(heads_HSE, heads_HSE.transpose(1, 2)), std::pair(pairs_HSS.transpose(1, 2), heads_HSE)}) {
    const at::Tensor &x = operands.first, &y = operands.second;
    const at::Tensor out = at::empty({4, x.size(1), y.size(2)}, options);
    EXPECT_GE(kernel_scratch_bytes(op, {x, y, out}), measured([&] { at::bmm(x, y); }));
  }
}

TEST(KernelScratch, AsksWithoutMultiplying) {
  if (!kernel_scratch_was_measured_here()) GTEST_SKIP() << kNotMeasured;
  const Threads threads(1);
  const auto start = std::chrono::steady_clock::now();
  matrix_product_scratch_bytes({0, 8192, 8192, 128256, false, true});  // 17 x 10^12 operations
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

// This process's threads, counted when none is about to end.
int64_t lasting_threads() {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  int64_t last = count();
  for (int unchanged = 0; unchanged < 20; ++unchanged) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const int64_t now = count();
    if (now != last) unchanged = 0;
    last = now;
  }
  return last;
}

// Without AMX the product of BF16 is not stopped: it is multiplied, by a team of threads.
TEST(KernelScratch, LeavesNoThreadsToWhoAsks) {
  const Threads threads(2);
  std::thread([] {
    at::init_num_threads();
    const int64_t before = lasting_threads();
    matrix_product_scratch_bytes({0, 300, 310, 320, false, true});
    EXPECT_EQ(lasting_threads(), before);
  }).join();
}

// Twice: a question that failed has no answer that could be remembered.
TEST(KernelScratch, NeedsAddressSpaceToAsk) {
  if (!kernel_scratch_was_measured_here()) GTEST_SKIP() << kNotMeasured;
  const int64_t side = int64_t{1} << 28;  // 2 x 2^56 bytes
  for (int i = 0; i < 2; ++i) EXPECT_THROW(matrix_product_scratch_bytes({0, side, 2, side, false, false}), Error);
}

class AttentionScratch : public ::testing::TestWithParam<std::tuple<at::ScalarType, int, int64_t>> {};

TEST_P(AttentionScratch, IsWhatTheKernelsTake) {
  if (!kernel_scratch_was_measured_here()) GTEST_SKIP() << kNotMeasured;
  const auto [type, count, length] = GetParam();
  const Threads threads(count);
  ledger::install_cpu();
  const auto make = [type = type, length = length] {
    return at::rand({2, length, 3, 16}, at::TensorOptions().dtype(type)).transpose(1, 2);
  };
  const at::Tensor query = make(), key = make(), value = make(), gradient = make();
  at::Tensor output, logsumexp;
  const int64_t forward = measured([&] {
    std::tie(output, logsumexp) = at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, true);
  });
  EXPECT_EQ(attention_scratch_bytes(query, key), forward);
  const int64_t backward = measured([&] {
    at::_scaled_dot_product_flash_attention_for_cpu_backward(gradient, query, key, value, output, logsumexp, 0.0, true);
  });
  const int64_t predicted = attention_backward_scratch_bytes(gradient, query, key);
  EXPECT_GE(predicted, backward);
  EXPECT_LE(predicted, backward + backward / 2);
  if (count == 1 && type == at::kFloat) {
    EXPECT_EQ(predicted, backward);
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, AttentionScratch,
                         ::testing::Combine(::testing::Values(at::kFloat, at::kBFloat16), ::testing::Values(1, 2),
                                            ::testing::Values<int64_t>(33, 64, 200, 260, 800)));

class PackedAttentionScratch : public ::testing::TestWithParam<std::tuple<int, int64_t, int64_t>> {
 protected:
  void TearDown() override { plays_amx = false; }
};

TEST_P(PackedAttentionScratch, IsWhatTheForwardTakes) {
  if (at::get_cpu_capability() != "AVX512" || std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr) {
    GTEST_SKIP() << "the kernels that pack want AVX512_BF16 of LibTorch and of oneDNN";
  }
  if (!kernel_scratch_was_measured_here()) GTEST_SKIP() << kNotMeasured;
  const auto [count, length, head_size] = GetParam();
  const Threads threads(count);
  ledger::install_cpu();
  const at::Tensor heads =
      at::rand({2, length, 3, head_size}, at::TensorOptions().dtype(at::kBFloat16)).transpose(1, 2);
  const bool had_amx = multiplies_with_amx();
  const int64_t unpacked = attention_scratch_bytes(heads, heads);
  plays_amx = true;
  const int64_t packed = attention_scratch_bytes(heads, heads);
  EXPECT_EQ(packed, measured([&] { at::_scaled_dot_product_flash_attention_for_cpu(heads, heads, heads, 0.0, true); }));
  EXPECT_EQ(packed > unpacked, length >= 64 && !had_amx);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, PackedAttentionScratch,
                         ::testing::Combine(::testing::Values(1, 2), ::testing::Values<int64_t>(63, 64, 101, 513, 800),
                                            ::testing::Values<int64_t>(15, 16)));

}  // namespace
}  // namespace fathom::phantom
