// What the proof of kernels takes for equal, and that the CPU's own pass it.
#include "train/prove_kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace fathom::train {
namespace {

TEST(ProveKernels, TheCpusOwnHold) { EXPECT_NO_THROW(prove_kernels(at::kCPU)); }

TEST(ProveKernels, NoOthersDo) {
  const at::Tensor numbers = at::linspace(-1, 1, 1000), narrow = numbers.to(at::kBFloat16);
  EXPECT_TRUE(are_near({numbers, narrow}, {numbers, narrow}));
  EXPECT_TRUE(are_near({numbers * (1 + 1e-5)}, {numbers}));
  EXPECT_FALSE(are_near({numbers * (1 + 1e-3)}, {numbers}));
  EXPECT_FALSE(are_near({numbers, at::zeros_like(narrow)}, {numbers, narrow}));
  at::Tensor undefined = numbers.clone();
  undefined[500] = NAN;
  EXPECT_FALSE(are_near({undefined}, {numbers}));
  at::Tensor one_off = narrow.clone();
  one_off[999] = 0;  // one of a thousand was not written
  EXPECT_FALSE(are_near({one_off}, {narrow}));
  const at::Tensor codes = at::arange(200).to(at::kByte);
  EXPECT_TRUE(are_near({codes + 1}, {codes}));
  EXPECT_FALSE(are_near({codes + 2}, {codes}));
  EXPECT_FALSE(are_near({numbers}, {numbers, narrow}));
}

}  // namespace
}  // namespace fathom::train
