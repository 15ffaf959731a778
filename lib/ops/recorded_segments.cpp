// An autograd function around two recordings: what autograd builds while the forward pass is recorded is what the
// recorded backward pass goes through.
#include "ops/recorded_segments.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "base/split_mix.h"

namespace fathom::ops {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct RecordedSegments::Recorded {
  Recorded(ledger::CudaDevice& device_in, std::vector<at::Tensor> trained_in, const at::Tensor& like,
           Segment segment_in)
      : device(device_in), trained(std::move(trained_in)), segment(std::move(segment_in)) {
    device.release_cached();
    input = empty_like(like).set_requires_grad(like.requires_grad());
    forward = device.record([&] {
      const at::AutoGradMode gradients(true);
      output = segment(input);
    });
    claim(output);
  }

  void record_backward(const at::Tensor& like) {
    gradient = empty_like(like);
    device.release_cached();  // LibTorch does not, while work is recorded
    // Of what the segment does not read, whose gradients come from elsewhere.
    std::vector<bool> is_made;
    for (const at::Tensor& leaf : trained) is_made.push_back(leaf.grad().defined());
    backward = device.record([&] { torch::autograd::backward({output}, {gradient}); });
    output = output.detach();
    gradient_of_input = std::move(input.mutable_grad());
    input = input.detach();
    claim(gradient_of_input);
    // Not kept: a gradient ends with its step, as it does without recordings, and other recordings may have the memory.
    for (size_t i = 0; i < trained.size(); ++i) {
      const at::Tensor& made = trained[i].grad();
      const bool is_here = made.defined() && !is_made[i];
      gradients.push_back(is_here ? at::from_blob(made.data_ptr(), made.sizes(), made.strides(), made.options())
                                  : at::Tensor());
    }
  }

  void replay_backward() {
    backward->replay();
    for (size_t i = 0; i < trained.size(); ++i) {
      if (gradients[i].defined()) trained[i].mutable_grad() = gradients[i];
    }
  }

  static at::Tensor empty_like(const at::Tensor& like) {
    const ledger::ClaimScope stays(memory::Component::kFunctionality);
    return at::empty(like.sizes(), like.options());
  }
  void claim(const at::Tensor& tensor) const {
    device.ledger().claim(tensor, memory::Component::kFunctionality, "recorded layers");
  }

  ledger::CudaDevice& device;
  std::vector<at::Tensor> trained;
  Segment segment;
  std::unique_ptr<ledger::CudaDevice::Recording> forward, backward;
  at::Tensor input, output, gradient, gradient_of_input;
  std::vector<at::Tensor> gradients;  // of trained, where they are written to
};

struct RecordedSegments::Replay : torch::autograd::Function<Replay> {
  struct Holder : torch::CustomClassHolder {
    std::shared_ptr<Recorded> recorded;
  };

  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& /*anchor*/,
                            const c10::intrusive_ptr<Holder>& holder) {
    context->saved_data["recorded"] = c10::IValue::make_capsule(holder);
    Recorded& recorded = *holder->recorded;
    recorded.input.variable_data().copy_(input);  // which autograd need not know: nothing has been computed of it yet
    recorded.forward->replay();
    return recorded.output.detach();
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto holder = c10::static_intrusive_pointer_cast<Holder>(context->saved_data["recorded"].toCapsule());
    Recorded& recorded = *holder->recorded;
    const bool is_new = recorded.backward == nullptr;
    if (is_new) recorded.record_backward(gradients[0]);
    recorded.gradient.variable_data().copy_(gradients[0]);
    gradients[0].reset();
    is_new ? recorded.backward->replay() : recorded.replay_backward();
    return {recorded.gradient_of_input, at::Tensor(), at::Tensor()};
  }
};

RecordedSegments::RecordedSegments(ledger::CudaDevice& device, std::vector<at::Tensor> trained, int64_t most)
    : device_(device), trained_(std::move(trained)), most_(most) {}

RecordedSegments::~RecordedSegments() = default;

at::Tensor RecordedSegments::run(const std::vector<int64_t>& kind, const Segment& segment, const at::Tensor& input,
                                 const at::Tensor& anchor) {
  const auto [place, is_first] = by_kind_.try_emplace(kind);
  const bool is_second = !is_first && place->second == nullptr;
  if (is_first || is_second) {
    NumberHash fact;
    for (const int64_t number : kind) fact.add(static_cast<uint64_t>(number));
    fact.add(is_second ? 2 : 1);
    device_.note(fact.value());
  }
  if (is_first) return segment(input);
  if (is_second) {
    if (recorded_ == most_) return segment(input);
    place->second = std::make_shared<Recorded>(device_, trained_, input, segment);
    recorded_ += 1;
  }
  auto holder = c10::make_intrusive<Replay::Holder>();
  holder->recorded = place->second;
  return Replay::apply(input, anchor, holder);
}

}  // namespace fathom::ops
