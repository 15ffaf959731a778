// Gradient checkpointing as an autograd function whose backward pass runs a nested forward and backward.
#include "ops/activation_checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>

#include "ops/autocast.h"

namespace fathom::ops {
namespace {

// Where a device's default generator stands, without a tensor: Generator::get_state() would make one for each segment.
class RandomPosition {
 public:
  static RandomPosition now(at::Device device) {
    RandomPosition position;
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard lock(generator.mutex());
    if (device.is_cpu()) {
      position.cpu_ = at::check_generator<at::CPUGeneratorImpl>(generator)->clone();
    } else {
      position.seed_ = generator.current_seed();
      position.offset_ = generator.get_offset();
    }
    return position;
  }

  void restore(at::Device device) const {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard lock(generator.mutex());
    if (cpu_ == nullptr) {
      generator.set_current_seed(seed_);
      generator.set_offset(offset_);
      return;
    }
    auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
    cpu->set_engine(cpu_->engine());
    cpu->set_next_float_normal_sample(cpu_->next_float_normal_sample());
    cpu->set_next_double_normal_sample(cpu_->next_double_normal_sample());
  }

 private:
  std::shared_ptr<at::CPUGeneratorImpl> cpu_;
  uint64_t seed_ = 0, offset_ = 0;
};

// While alive the default generator repeats what followed `position`; afterwards it is where it was.
class RepeatedRandomness {
 public:
  RepeatedRandomness(at::Device device, const std::optional<RandomPosition>& position) : device_(device) {
    if (!position) return;
    resume_ = RandomPosition::now(device);
    position->restore(device);
  }
  ~RepeatedRandomness() {
    if (resume_) resume_->restore(device_);
  }
  RepeatedRandomness(const RepeatedRandomness&) = delete;
  RepeatedRandomness& operator=(const RepeatedRandomness&) = delete;

 private:
  at::Device device_;
  std::optional<RandomPosition> resume_;
};

struct Recipe : torch::CustomClassHolder {
  Segment segment;
  CheckpointOptions options;
  bool autocast = false, input_needs_gradient = false;
  at::ScalarType autocast_dtype = at::kBFloat16;
  std::optional<RandomPosition> random;
};

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& /*anchor*/, const c10::intrusive_ptr<Recipe>& recipe) {
    context->save_for_backward({input});
    context->saved_data["recipe"] = c10::IValue::make_capsule(recipe);
    return recipe->segment(input);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto recipe = c10::static_intrusive_pointer_cast<Recipe>(context->saved_data["recipe"].toCapsule());
    const at::Tensor input = context->get_saved_variables()[0].detach().set_requires_grad(recipe->input_needs_gradient);
    ledger::Ledger* ledger = recipe->options.ledger;
    at::Tensor output;
    {
      const at::AutoGradMode gradients_on(true);
      const RepeatedRandomness random(input.device(), recipe->random);
      const AutocastScope autocast(input.device().type(), recipe->autocast, recipe->autocast_dtype);
      if (ledger != nullptr) ledger->begin_recomputation();
      output = recipe->segment(input);
    }
    if (ledger != nullptr) ledger->begin_segment_backward();
    torch::autograd::backward({output}, {gradients[0]});
    return {input.grad(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor checkpoint(const Segment& segment, const at::Tensor& input, const at::Tensor& anchor,
                      const CheckpointOptions& options) {
  const c10::DeviceType device = input.device().type();
  auto recipe = c10::make_intrusive<Recipe>();
  recipe->segment = segment;
  recipe->options = options;
  recipe->autocast = at::autocast::is_autocast_enabled(device);
  recipe->autocast_dtype = at::autocast::get_autocast_dtype(device);
  recipe->input_needs_gradient = input.requires_grad();
  if (options.random) recipe->random = RandomPosition::now(input.device());
  return Checkpoint::apply(input, anchor, recipe);
}

}  // namespace fathom::ops
