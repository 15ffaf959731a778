// The states of AdamW in several types, and its update by our kernel. By operators: mixed_adamw_operators.cpp.
#include "optim/mixed_adamw.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>

#include "optim/elements.h"

namespace fathom::optim {
namespace {

at::ScalarType type_of(footprint::MomentStorage storage, int64_t elements) {
  if (footprint::is_quantized(storage, elements)) return at::kByte;
  return storage == footprint::MomentStorage::kBf16 ? at::kBFloat16 : at::kFloat;
}

}  // namespace

MixedAdamW::MixedAdamW(const std::vector<OptimizedParameter>& parameters, const MixedAdamWOptions& options,
                       ledger::Ledger* ledger)
    : Optimizer(ledger), options_(options) {
  for (const OptimizedParameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    Entry entry{tensor, {}, parameter.decays, {}, {}};
    if (options_.masters == config::MasterWeights::kFp32 && tensor.scalar_type() == at::kBFloat16) {
      entry.master = add_state("master." + parameter.name, tensor, tensor.sizes(), at::kFloat);
    }
    entry.first = add_moment("exp_avg", parameter);
    entry.second = add_moment("exp_avg_sq", parameter);
    entries_.push_back(std::move(entry));
  }
  if (!parameters.empty() && !has_kernel(parameters.front().tensor)) {
    prepare_operators(parameters.front().tensor.device());
  }
}

MixedAdamW::Moment MixedAdamW::add_moment(const std::string& name, const OptimizedParameter& parameter) {
  const at::Tensor& tensor = parameter.tensor;
  const int64_t elements = tensor.numel();
  Moment moment;
  moment.values = add_state(name + "." + parameter.name, tensor, tensor.sizes(), type_of(options_.moments, elements));
  if (const int64_t scales = footprint::scales_of_moment(options_.moments, elements); scales > 0) {
    moment.scales = add_state(name + "_scale." + parameter.name, tensor, {scales}, at::kFloat);
  }
  return moment;
}

void MixedAdamW::prepare_operators(at::Device device) {
  std::vector<footprint::UpdatedParameter> parameters;
  bool looks_up = false;
  for (const Entry& entry : entries_) {
    const bool quantized = entry.first.scales.defined();
    parameters.push_back({entry.parameter.numel(), entry.parameter.scalar_type() != at::kFloat, quantized});
    looks_up = looks_up || quantized;
  }
  groups_ = footprint::update_groups(parameters);
  // The fused kernel reads a count for each parameter; all of them are equal, so they share one.
  count_of_steps_ = at::zeros({}, at::TensorOptions().device(device).dtype(at::kFloat));
  claim(count_of_steps_, "step");
  if (!looks_up) return;
  const auto table = [&](const quant::DynamicMap& map) {
    const auto copy = [&](const std::array<float, 256>& numbers, int64_t count) {
      at::Tensor tensor = at::from_blob(const_cast<float*>(numbers.data()), {count}, at::kFloat).to(device);
      claim(tensor, "table of dynamic codes");
      return tensor;
    };
    return Table{copy(map.values, 256), copy(map.midpoints, 255), map.zero};
  };
  tables_ = {table(quant::kSignedDynamic), table(quant::kUnsignedDynamic)};
}

void MixedAdamW::set_steps(int64_t steps) {
  Optimizer::set_steps(steps);
  if (count_of_steps_.defined()) count_of_steps_.fill_(static_cast<double>(steps));
}

void MixedAdamW::update(double learning_rate, const at::Tensor& gradient_factor) {
  if (!groups_.empty()) return update_by_operators(learning_rate, gradient_factor);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    cpu::AdamWStep step =
        adamw_step(options_.update, steps(), learning_rate, entry.decays ? options_.update.weight_decay : 0);
    step.factor = factor_on_host(gradient_factor, entry.parameter);
    update_by_kernel(entry, step, cpu::draw_stream(options_.seed, steps(), static_cast<int64_t>(i)));
  }
}

void MixedAdamW::update_by_kernel(const Entry& entry, const cpu::AdamWStep& step, const cpu::DrawStream& draws) const {
  const at::Tensor& parameter = entry.parameter;
  const at::Tensor gradient = parameter.grad().contiguous();
  // What is read and written again stands twice: the weights or their masters, moments, scales.
  const at::Tensor& kept = entry.master.defined() ? entry.master : parameter;
  std::vector<c10::IValue> traffic = {gradient, kept, kept.detach()};
  if (entry.master.defined()) traffic.emplace_back(parameter);
  for (const at::Tensor& state : {entry.first.values, entry.first.scales, entry.second.values, entry.second.scales}) {
    if (!state.defined()) continue;
    traffic.emplace_back(state);
    traffic.emplace_back(state.detach());
  }
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::mixed_adamw", traffic);
  if (!parameter.is_cpu()) return;
  cpu::StoredWeights weights{ops::rows(parameter), nullptr, steps() == 1, rounds_stochastically(parameter)};
  if (entry.master.defined()) weights.masters = entry.master.data_ptr<float>();
  const int64_t elements = parameter.numel();
  if (!entry.first.scales.defined()) {
    const cpu::StoredMoments moments{ops::rows(entry.first.values), ops::rows(entry.second.values)};
    at::parallel_for(0, elements, kElementsPerTask, [&](int64_t first, int64_t last) {
      cpu::adamw(step, weights, ops::rows(gradient), moments, draws, first, last);
    });
    return;
  }
  const cpu::QuantizedMoments moments{entry.first.values.data_ptr<uint8_t>(), entry.first.scales.data_ptr<float>(),
                                      entry.second.values.data_ptr<uint8_t>(), entry.second.scales.data_ptr<float>()};
  constexpr int64_t kBlock = quant::kDynamicBlock;
  at::parallel_for(0, divide_up(elements, kBlock), kElementsPerTask / kBlock, [&](int64_t first, int64_t last) {
    cpu::adamw(step, weights, ops::rows(gradient), moments, draws, first * kBlock, std::min(last * kBlock, elements));
  });
}

}  // namespace fathom::optim
