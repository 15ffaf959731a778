// Copies arrive whichever side lies turned, and take nothing on the way.
#include "ops/copy_turned.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "ledger/ledger.h"

namespace fathom::ops {
namespace {

TEST(CopyTurned, TakesNothingWhicheverSideLiesTurned) {
  ledger::Ledger& ledger = ledger::install_cpu();
  const at::Tensor source = at::randn({90, 130});
  const std::vector<at::Tensor> from = {source, source.t().contiguous().t(), source.narrow(0, 3, 80),
                                        source.t().contiguous().t().narrow(0, 3, 80)};
  for (const at::Tensor& each : from) {
    for (const bool turned : {false, true}) {
      const at::Tensor to = turned ? at::zeros({each.size(1), each.size(0)}).t() : at::zeros(each.sizes());
      ledger.label();
      copy_turned(to, each);
      EXPECT_EQ(ledger.label().kernel_scratch, 0) << each.sizes() << each.strides() << turned;
      EXPECT_TRUE(at::equal(to, each));
    }
  }
  at::Tensor numbers = at::zeros({3});
  copy_turned(numbers, at::ones({3}));
  EXPECT_TRUE(at::equal(numbers, at::ones({3})));
}

}  // namespace
}  // namespace fathom::ops
