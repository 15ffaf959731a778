// Gradient checkpointing as an autograd function whose backward pass runs a nested forward and backward.
#include "ops/activation_checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/autocast.h"
#include "ops/repeated_randomness.h"

namespace fathom::ops {
namespace {

struct Recipe : torch::CustomClassHolder {
  Segment segment;
  CheckpointOptions options;
  bool autocast = false;
  std::vector<bool> needs_gradient;  // each input
  at::ScalarType autocast_dtype = at::kBFloat16;
  std::optional<RandomPosition> random;
};

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::TensorList inputs,
                            const at::Tensor& /*anchor*/, const c10::intrusive_ptr<Recipe>& recipe) {
    context->save_for_backward(inputs.vec());
    context->saved_data["recipe"] = c10::IValue::make_capsule(recipe);
    return recipe->segment(inputs.vec());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto recipe = c10::static_intrusive_pointer_cast<Recipe>(context->saved_data["recipe"].toCapsule());
    std::vector<at::Tensor> inputs = context->get_saved_variables();
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = inputs[i].detach().set_requires_grad(recipe->needs_gradient[i]);
    }
    const at::Device device = inputs.front().device();
    ledger::Ledger* ledger = recipe->options.ledger;
    at::Tensor output;
    {
      const at::AutoGradMode gradients_on(true);
      const RepeatedRandomness random(device, recipe->random);
      const AutocastScope autocast(device.type(), recipe->autocast, recipe->autocast_dtype);
      if (ledger != nullptr) ledger->begin_recomputation();
      output = recipe->segment(inputs);
    }
    if (ledger != nullptr) ledger->begin_segment_backward();
    torch::autograd::backward({output}, {gradients[0]});
    torch::autograd::variable_list made;
    for (const at::Tensor& input : inputs) made.push_back(input.grad());
    made.resize(made.size() + 2);  // of anchor and recipe
    return made;
  }
};

}  // namespace

at::Tensor checkpoint(const Segment& segment, const std::vector<at::Tensor>& inputs, const at::Tensor& anchor,
                      const CheckpointOptions& options) {
  const at::Device device = inputs.front().device();
  auto recipe = c10::make_intrusive<Recipe>();
  recipe->segment = segment;
  recipe->options = options;
  recipe->autocast = at::autocast::is_autocast_enabled(device.type());
  recipe->autocast_dtype = at::autocast::get_autocast_dtype(device.type());
  for (const at::Tensor& input : inputs) recipe->needs_gradient.push_back(input.requires_grad());
  if (options.random) recipe->random = RandomPosition::now(device);
  return Checkpoint::apply(at::TensorList(inputs), anchor, recipe);
}

}  // namespace fathom::ops
