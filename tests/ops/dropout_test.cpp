// Dropout: what it leaves out, that it leaves out the same again, and what it keeps.
#include "ops/dropout.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace fathom::ops {
namespace {

TEST(Dropout, keeps_the_mean_and_a_share_of_the_elements) {
  at::manual_seed(1);
  const at::Tensor y = Dropout().draw(at::ones({100000}), 0.25);
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.01);
  EXPECT_NEAR((y == 0).to(at::kFloat).mean().item<double>(), 0.25, 0.01);
}

TEST(Dropout, leaves_out_the_same_again) {
  at::manual_seed(1);
  Dropout dropout;
  const at::Tensor x = at::rand({64, 5}), y = dropout.draw(x, 0.5);
  EXPECT_TRUE(dropout.apply(x).equal(y));
  EXPECT_TRUE(dropout.apply_to(x.clone()).equal(y));
}

TEST(Dropout, drops_what_is_not_finite) {
  at::manual_seed(1);
  const at::Tensor y = Dropout().draw(at::full({1000}, INFINITY), 0.5);
  EXPECT_FALSE(y.isnan().any().item<bool>());
}

TEST(Dropout, of_nothing_is_the_tensor_itself) {
  Dropout dropout;
  const at::Tensor x = at::ones({3});
  EXPECT_TRUE(dropout.draw(x, 0).is_same(x));
  EXPECT_TRUE(dropout.is_off());
  EXPECT_TRUE(dropout.apply(x).is_same(x));
}

}  // namespace
}  // namespace fathom::ops
