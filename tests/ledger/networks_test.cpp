// Five tiny networks trained for two steps on the CPU: every component against bytes worked out by hand.
//
// All numbers are FP32 (4 bytes an element). "Saved" names what autograd keeps for the backward pass; a tensor that
// nothing saves and no variable holds is gone before the backward begins.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ledger/ledger.h"

namespace fathom::ledger {
namespace {

using at::Tensor;
using C = memory::Component;

// A parameter list, its gradients and fused AdamW, claimed as the trainer claims them.
class TinyRun {
 public:
  explicit TinyRun(std::vector<std::vector<int64_t>> shapes) : start_(ledger_.live_bytes()) {
    ledger_.label();
    ledger_.begin_phase(memory::Phase::kLoad);
    for (auto& shape : shapes) {
      parameters.push_back(at::full(shape, 0.1).set_requires_grad(true));
      means_.push_back(at::zeros(shape));
      squares_.push_back(at::zeros(shape));
      steps_.push_back(at::ones({}));
    }
    for (auto& p : parameters) ledger_.claim(p, weights_are);
    for (auto* states : {&means_, &squares_, &steps_})
      for (auto& state : *states) ledger_.claim(state, C::kOptimizerStates);
    ledger_.end_phase();
  }

  Tensor input(Tensor tensor) {
    ledger_.claim(tensor, C::kFunctionality);
    return tensor;
  }

  // The memory of the second of two steps.
  memory::Memory train(const std::function<Tensor()>& loss_of) {
    memory::Memory memory;
    for (int i = 0; i < 2; i++) {
      ledger_.label();
      ledger_.begin_phase(memory::Phase::kForward);
      Tensor loss = loss_of();
      ledger_.end_phase();
      ledger_.begin_phase(memory::Phase::kBackward);
      torch::autograd::backward({loss}, {});
      loss.reset();
      for (auto& p : parameters) ledger_.claim(p.grad(), C::kGradients);
      ledger_.end_phase();
      ledger_.begin_phase(memory::Phase::kOptimizerStep);
      {
        at::NoGradGuard no_grad;
        std::vector<Tensor> gradients;
        for (auto& p : parameters) gradients.push_back(p.grad());
        at::_fused_adamw_(parameters, gradients, means_, squares_, {}, steps_, 1e-3, 0.9, 0.99, 0.0, 1e-8, false,
                          false);
      }
      for (auto& p : parameters) p.mutable_grad().reset();
      ledger_.end_phase();
      memory = ledger_.label();
      for (const auto& phase : memory.phases) EXPECT_EQ(phase.at_peak.total(), phase.peak);
    }
    const memory::ComponentBytes& end = memory.phase(memory::Phase::kOptimizerStep).end;
    EXPECT_EQ(end[C::kTemporaryBuffers], 0) << "nothing temporary outlives the gradients";
    EXPECT_EQ(end[C::kActivations], 0);
    EXPECT_EQ(end[C::kGradients], 0);
    EXPECT_EQ(end.total(), ledger_.live_bytes());
    return memory;
  }

  Ledger& ledger() { return ledger_; }

  std::vector<Tensor> parameters;
  static inline C weights_are = C::kWeights;

 private:
  Ledger& ledger_ = install_cpu();
  int64_t start_;
  std::vector<Tensor> means_, squares_, steps_;
};

struct Expected {
  int64_t weights, optimizer_states, gradients, functionality, activations, temporary_buffers, peak;
};

// Empty if `memory` holds the expected bytes: each component's largest, and the peak.
std::string difference(const memory::Memory& memory, const Expected& expected) {
  std::string text;
  auto compare = [&](std::string_view what, int64_t is, int64_t should) {
    if (is != should)
      text += std::string(what) + " " + std::to_string(is) + " instead of " + std::to_string(should) + "\n";
  };
  const std::pair<C, int64_t> rows[] = {{C::kWeights, expected.weights},
                                        {C::kOptimizerStates, expected.optimizer_states},
                                        {C::kGradients, expected.gradients},
                                        {C::kFunctionality, expected.functionality},
                                        {C::kActivations, expected.activations},
                                        {C::kTemporaryBuffers, expected.temporary_buffers},
                                        {C::kKernels, 0}};
  for (auto [component, bytes] : rows) compare(memory::component_name(component), memory.maximum[component], bytes);
  compare("peak", memory.peak, expected.peak);
  return text;
}

class Networks : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    TinyRun::weights_are = C::kWeights;
  }
};

// y = x Wᵀ + b, loss = Σ y². x [4, 8], W [3, 8], b [3].
memory::Memory train_linear() {
  TinyRun run({{3, 8}, {3}});
  Tensor x = run.input(at::ones({4, 8}));
  return run.train([&] {
    Tensor y = at::linear(x, run.parameters[0], run.parameters[1]);
    return at::sum(y * y);
  });
}

const Expected kLinear = {
    .weights = 108,           // 3*8 + 3 = 27 elements
    .optimizer_states = 224,  // two moments of 108, two step counts of 4
    .gradients = 108,
    .functionality = 128,  // x: 32 elements
    .activations = 52,     // y 12 elements, saved by y * y; the loss
    // While y * y is differentiated: the root gradient (the gradient of sum is a view of it) and the gradients by both
    // factors, 48 each, of which the second is added into the first.
    .temporary_buffers = 4 + 48 + 48,
    // The backward of linear: y is gone, the loss (4) is not; both gradients, the gradient of y (48) and the root (4).
    .peak = 108 + 224 + 128 + 4 + 108 + 48 + 4};

TEST_F(Networks, Linear) { EXPECT_EQ(difference(train_linear(), kLinear), ""); }

TEST_F(Networks, AMislabelledTensorMakesTheComparisonFail) {
  TinyRun::weights_are = C::kOptimizerStates;
  std::string text = difference(train_linear(), kLinear);
  EXPECT_NE(text.find("weights 0 instead of 108"), std::string::npos) << text;
  EXPECT_NE(text.find("optimizer_states 332 instead of 224"), std::string::npos) << text;
}

// h = relu(x W1ᵀ + b1), y = h W2ᵀ + b2, loss = Σ y². x [4, 8], W1 [16, 8], b1 [16], W2 [3, 16], b2 [3].
TEST_F(Networks, TwoLayersWithRelu) {
  TinyRun run({{16, 8}, {16}, {3, 16}, {3}});
  Tensor x = run.input(at::ones({4, 8}));
  const auto& p = run.parameters;
  memory::Memory memory = run.train([&] {
    Tensor h = at::relu(at::linear(x, p[0], p[1]));
    Tensor y = at::linear(h, p[2], p[3]);
    return at::sum(y * y);
  });
  const Expected expected = {
      .weights = 780,             // 128 + 16 + 48 + 3 = 195 elements
      .optimizer_states = 1'576,  // 2 * 780 + 4 * 4
      .gradients = 780,
      .functionality = 128,
      .activations = 256 + 48 + 4,  // h (saved by relu and by the second product), y, the loss; not relu's input
      // relu's backward: the gradients of h and of relu's input (4 * 16 elements each), and the root.
      .temporary_buffers = 256 + 256 + 4,
      // The backward of the first layer: all gradients, the gradient of relu's input, the root, the loss.
      .peak = 780 + 1'576 + 128 + 780 + 256 + 4 + 4};
  EXPECT_EQ(difference(memory, expected), "");
}

// x = E[ids], loss = cross entropy of x Hᵀ. ids and targets [5] of int64, E and H [10, 6].
TEST_F(Networks, EmbeddingAndCrossEntropy) {
  TinyRun run({{10, 6}, {10, 6}});
  Tensor ids_T = run.input(at::zeros({5}, at::kLong)), targets_T = run.input(at::ones({5}, at::kLong));
  memory::Memory memory = run.train([&] {
    Tensor x_TD = at::embedding(run.parameters[0], ids_T);
    return at::cross_entropy_loss(at::linear(x_TD, run.parameters[1]), targets_T);
  });
  const Expected expected = {
      .weights = 480,
      .optimizer_states = 968,  // 2 * 480 + 2 * 4
      .gradients = 480,
      .functionality = 80,  // 10 integers of 8 bytes
      // x (5 * 6, saved by the product), the log-probabilities (5 * 10), the total weight of the loss, the loss.
      .activations = 120 + 200 + 4 + 4,
      .temporary_buffers = 200 + 200 + 4,  // gradients of the log-probabilities and of the logits, the root
      // log_softmax's backward: x, log-probabilities and loss are alive, no gradient is there yet.
      .peak = 480 + 968 + 80 + 120 + 200 + 4 + 404};
  EXPECT_EQ(difference(memory, expected), "");
}

// out = x + dropout(x Wᵀ), loss = Σ out². x [4, 8], W [8, 8]: every [4, 8] tensor has 128 bytes.
TEST_F(Networks, ResidualBlockWithDropout) {
  TinyRun run({{8, 8}});
  Tensor x = run.input(at::ones({4, 8}));
  memory::Memory memory = run.train([&] {
    Tensor h = at::linear(x, run.parameters[0]);
    Tensor dropped = at::dropout(h, 0.5, true);
    Tensor out = x + dropped;
    return at::sum(out * out);
  });
  const Expected expected = {
      .weights = 256,
      .optimizer_states = 516,
      .gradients = 256,
      .functionality = 128,
      .activations = 128 + 128 + 4,          // dropout's mask, of the input's type on the CPU; out; the loss
      .temporary_buffers = 128 + 128 + 128,  // h and dropped, which variables hold until the end, and out²
      .peak = 256 + 516 + 128 + 260 + 384};  // the end of forward
  EXPECT_EQ(difference(memory, expected), "");
}

// Runs `segment` without a graph, and again in its backward.
struct Segment : torch::CustomClassHolder {
  std::function<Tensor(const Tensor&)> run;
  Ledger* ledger;
};
struct Recompute : torch::autograd::Function<Recompute> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor&,
                        c10::intrusive_ptr<Segment> segment) {
    context->save_for_backward({x});
    context->saved_data["segment"] = c10::IValue::make_capsule(segment);
    return segment->run(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto segment = c10::static_intrusive_pointer_cast<Segment>(context->saved_data["segment"].toCapsule());
    Tensor x = context->get_saved_variables()[0].detach(), y;
    segment->ledger->begin_recomputation();
    {
      at::AutoGradMode enable(true);
      y = segment->run(x);
    }
    segment->ledger->begin_segment_backward();
    torch::autograd::backward({y}, {gradients[0]});
    return {Tensor(), Tensor(), Tensor()};
  }
};

// s = relu(relu(x W1ᵀ) W2ᵀ), checkpointed; loss = Σ (s W3ᵀ)². x [4, 8], W1 [16, 8], W2 [8, 16], W3 [3, 8].
TEST_F(Networks, CheckpointedSegment) {
  TinyRun run({{16, 8}, {8, 16}, {3, 8}});
  Tensor x = run.input(at::ones({4, 8})), anchor = at::empty({0}).set_requires_grad(true);
  auto segment = c10::make_intrusive<Segment>();
  segment->ledger = &run.ledger();
  // One expression: its four tensors of 256, 256, 128 and 128 bytes live until its end.
  segment->run = [&](const Tensor& in) {
    return at::relu(at::linear(at::relu(at::linear(in, run.parameters[0])), run.parameters[1]));
  };
  memory::Memory memory = run.train([&] {
    Tensor y = at::linear(Recompute::apply(x, anchor, segment), run.parameters[2]);
    return at::sum(y * y);
  });
  const Expected expected = {
      .weights = 1'120,           // 128 + 128 + 24 elements
      .optimizer_states = 2'252,  // 2 * 1,120 + 3 * 4
      .gradients = 1'120,
      .functionality = 128,
      // After recomputation: the outputs of both relus and the loss. In forward only s, y and the loss: 180.
      .activations = 256 + 128 + 4,
      // The first relu's backward: the gradients of its output and of its input, and, held by the segment's backward,
      // the gradient of s and the root.
      .temporary_buffers = 256 + 256 + 128 + 4,
      // At the same moment; the gradients of W3 (96) and W2 (512) are there.
      .peak = 1'120 + 2'252 + 128 + 388 + 644 + 96 + 512};
  EXPECT_EQ(difference(memory, expected), "");
  EXPECT_EQ(memory.phase(memory::Phase::kForward).end[C::kActivations], 128 + 48 + 4);
}

}  // namespace
}  // namespace fathom::ledger
