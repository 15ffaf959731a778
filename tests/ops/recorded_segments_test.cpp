// What is recorded, when it is replayed, and where numbers lie, on a device that "records" a product of its own.
#include "ops/recorded_segments.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ledger/idle_gpu.h"
#include "tests/ops/compare.h"

namespace fathom::ops {
namespace {

// y = x w, whose passes are computed anew, where they first put their numbers, at every replay.
class ProductGpu final : public testing::IdleGpu {
 public:
  using IdleGpu::IdleGpu;

  std::unique_ptr<Recording> record(const std::function<void()>& work) override {
    work();
    recorded += 1;
    return std::make_unique<Replayed>(*this, recorded % 2 == 0);
  }
  void note(uint64_t fact) override { notes.push_back(fact); }
  void release_cached() override { released += 1; }

  at::Tensor product(const at::Tensor& x_TD) {
    x = x_TD;
    y = x_TD.mul(w);
    // Whatever was in the memory while it was recorded is no number.
    y.register_hook([this](const at::Tensor& upstream) { gradient = upstream; });
    return y;
  }

  at::Tensor w = at::full({3}, 2.0).set_requires_grad(true);
  at::Tensor x, y, gradient, gradient_of_w, gradient_of_x;
  int recorded = 0, replayed = 0, released = 0;
  std::vector<uint64_t> notes;

 private:
  class Replayed final : public Recording {
   public:
    Replayed(ProductGpu& gpu, bool is_backward) : gpu_(gpu), is_backward_(is_backward) {
      if (!is_backward_) return;
      gpu_.gradient_of_w = gpu_.w.grad();
      gpu_.gradient_of_x = gpu_.x.grad();
    }
    void replay() override {
      const at::NoGradGuard no_gradients;
      gpu_.replayed += 1;
      const at::Tensor x = gpu_.x.detach(), w = gpu_.w.detach();
      if (!is_backward_) {
        gpu_.y.variable_data().copy_(x * w);
        return;
      }
      gpu_.gradient_of_w.copy_((gpu_.gradient * x).sum(0));
      if (gpu_.gradient_of_x.defined()) gpu_.gradient_of_x.copy_(gpu_.gradient * w);
    }

   private:
    ProductGpu& gpu_;
    bool is_backward_;
  };
};

class RecordedSegmentsTest : public ::testing::TestWithParam<bool> {
 protected:
  // A step of sum((y v)^2), where v has its gradient before the segment's backward pass, against autograd alone.
  void step(const at::Tensor& values_TD) {
    const at::Tensor input_TD = values_TD.clone().set_requires_grad(GetParam());
    const at::Tensor y_TD = segments_.run({values_TD.size(0), 3}, segment_, input_TD, anchor_);
    torch::autograd::backward({(y_TD * v_).square().sum()}, {});
    const at::Tensor expected_TD = values_TD.clone().set_requires_grad(GetParam());
    const at::Tensor w = gpu_.w.detach().clone().set_requires_grad(true);
    const at::Tensor v = v_.detach().clone().set_requires_grad(true);
    torch::autograd::backward({(expected_TD * w * v).square().sum()}, {});
    EXPECT_TRUE(at::equal(y_TD, expected_TD * w));
    EXPECT_TRUE(at::equal(gpu_.w.grad(), w.grad()));
    EXPECT_TRUE(at::equal(v_.grad(), v.grad()));
    ASSERT_EQ(input_TD.grad().defined(), GetParam());
    if (GetParam()) {
      EXPECT_TRUE(at::equal(input_TD.grad(), expected_TD.grad()));
    }
    const at::NoGradGuard no_gradients;
    for (at::Tensor* leaf : {&gpu_.w, &v_}) {
      *leaf -= 0.01 * leaf->grad();
      leaf->mutable_grad().reset();
    }
  }

  ledger::Ledger ledger_;
  ProductGpu gpu_{ledger_};
  at::Tensor v_ = at::full({3}, 0.5).set_requires_grad(true);
  at::Tensor anchor_ = at::empty({0}).set_requires_grad(true);
  RecordedSegments::Segment segment_ = [this](const at::Tensor& x_TD) { return gpu_.product(x_TD); };
  RecordedSegments segments_{gpu_, {v_, gpu_.w}, 16};
};

TEST_P(RecordedSegmentsTest, ComputeAsTheyCameThenRecordThenReplay) {
  at::manual_seed(3);
  const auto expect_done = [&](int recorded, int replayed) {
    EXPECT_EQ(gpu_.recorded, recorded);
    EXPECT_EQ(gpu_.replayed, replayed);
  };
  step(at::rand({2, 3}));
  expect_done(0, 0);
  step(at::rand({2, 3}));
  expect_done(2, 2);
  for (int replays = 2; replays < 5; ++replays) {
    step(at::rand({2, 3}));
    expect_done(2, 2 * replays);
  }
  EXPECT_EQ(gpu_.released, 2);
  EXPECT_EQ(gpu_.notes.size(), 2u) << "what was seen once, and what was recorded";
}

TEST_P(RecordedSegmentsTest, AreOfEachKindByItself) {
  for (const int64_t rows : {2, 5, 2}) step(at::rand({rows, 3}));
  EXPECT_EQ(gpu_.recorded, 2) << "of two rows";
  step(at::rand({5, 3}));
  EXPECT_EQ(gpu_.recorded, 4);
  EXPECT_EQ(gpu_.notes.size(), 4u);
  EXPECT_NE(gpu_.notes[0], gpu_.notes[1]);
}

INSTANTIATE_TEST_SUITE_P(OfInputs, RecordedSegmentsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "ThatNeedGradients" : "ThatNeedNone"; });

}  // namespace
}  // namespace fathom::ops
