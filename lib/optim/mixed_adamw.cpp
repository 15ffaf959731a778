// The states of AdamW in several types, and its update by our kernel. By operators: mixed_adamw_operators.cpp.
#include "optim/mixed_adamw.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>

#include "optim/elements.h"

namespace fathom::optim {
namespace {

at::ScalarType type_of(footprint::MomentStorage storage, const OptimizedParameter& parameter) {
  if (footprint::is_quantized(storage, parameter.elements())) return at::kByte;
  if (storage == footprint::MomentStorage::kAsWeights) return parameter.tensor.scalar_type();
  return storage == footprint::MomentStorage::kBf16 ? at::kBFloat16 : at::kFloat;
}

}  // namespace

MixedAdamW::MixedAdamW(const std::vector<OptimizedParameter>& parameters, const MixedAdamWOptions& options,
                       const StatesHome& home)
    : Optimizer(home), options_(options) {
  for (const OptimizedParameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    add_parameter(parameter);
    if (has_master(tensor)) add_state("master." + parameter.name, tensor.sizes(), at::kFloat);
    add_moment("exp_avg", parameter);
    add_moment("exp_avg_sq", parameter);
  }
  if (parameters.empty()) return;
  const at::Tensor& any = parameters.front().tensor;
  if (options_.cuda_kernels == nullptr) options_.cuda_kernels = ops::cuda_kernels_for(any);
  TORCH_INTERNAL_ASSERT(options_.cuda_kernels != nullptr || options_.moments != footprint::MomentStorage::kAsWeights);
  if (options_.cuda_kernels == nullptr && has_kernel(any)) return;
  add_tables(any.device());
  if (options_.cuda_kernels != nullptr) return;
  // The fused kernel reads a count for each parameter; all of them are equal, so they share one.
  count_of_steps_ = at::zeros({}, at::TensorOptions().device(any.device()).dtype(at::kFloat));
  claim(count_of_steps_, "step");
}

void MixedAdamW::add_moment(const std::string& name, const OptimizedParameter& parameter) {
  const at::Tensor& tensor = parameter.tensor;
  const int64_t block = footprint::block_of_moments(options_.moments, parameter.elements());
  add_state(name + "." + parameter.name, tensor.sizes(), type_of(options_.moments, parameter));
  if (block > 1) {
    add_state(name + "_scale." + parameter.name, {divide_up(tensor.numel(), block)}, at::kFloat, block);
  }
}

MixedAdamW::Entry MixedAdamW::entry_of(const Updated& updated) const {
  Entry entry{updated.parameter, updated.gradient, {}, updated.decays, updated.place, updated.origin};
  auto state = updated.states.begin();
  if (has_master(entry.parameter)) entry.master = *state++;
  for (Moment* moment : {&entry.first, &entry.second}) {
    moment->values = *state++;
    if (moment->values.scalar_type() == at::kByte) moment->scales = *state++;
  }
  return entry;
}

void MixedAdamW::add_tables(at::Device device) {
  const auto in_codes = [&](const Updated& each) { return entry_of(each).first.scales.defined(); };
  if (std::none_of(parameters().begin(), parameters().end(), in_codes)) return;
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

void MixedAdamW::update(std::span<const Updated> all, double learning_rate, const at::Tensor& gradient_factor) {
  std::vector<Entry> entries;
  for (const Updated& each : all) entries.push_back(entry_of(each));
  if (count_of_steps_.defined()) return update_by_operators(entries, learning_rate, gradient_factor);
  if (options_.cuda_kernels != nullptr) return update_by_cuda_kernel(entries, learning_rate, gradient_factor);
  for (const Entry& entry : entries) {
    cpu::AdamWStep step =
        adamw_step(options_.update, steps(), learning_rate, entry.decays ? options_.update.weight_decay : 0);
    step.factor = factor_on_host(gradient_factor, entry.parameter);
    update_by_kernel(entry, step, draw_stream(entry));
  }
}

// What is read and written again stands twice: the weights or their masters, moments, scales.
void MixedAdamW::add_traffic(const Entry& entry, const at::Tensor& gradient, std::vector<c10::IValue>& traffic) {
  const at::Tensor& kept = entry.master.defined() ? entry.master : entry.parameter;
  for (const at::Tensor& tensor : {gradient, kept, kept.detach()}) traffic.emplace_back(tensor);
  if (entry.master.defined()) traffic.emplace_back(entry.parameter);
  for (const at::Tensor& state : {entry.first.values, entry.first.scales, entry.second.values, entry.second.scales}) {
    if (!state.defined()) continue;
    traffic.emplace_back(state);
    traffic.emplace_back(state.detach());
  }
}

cpu::DrawStream MixedAdamW::draw_stream(const Entry& entry) const {
  return cpu::draw_stream(options_.seed, steps(), entry.place, entry.origin);
}

cpu::StoredWeights MixedAdamW::stored_weights(const Entry& entry) const {
  float* masters = entry.master.defined() ? entry.master.data_ptr<float>() : nullptr;
  return {ops::rows(entry.parameter), masters, steps() == 1, rounds_stochastically(entry.parameter)};
}

void MixedAdamW::update_by_kernel(const Entry& entry, const cpu::AdamWStep& step, const cpu::DrawStream& draws) const {
  const at::Tensor& parameter = entry.parameter;
  const at::Tensor gradient = entry.gradient.contiguous();
  std::vector<c10::IValue> traffic;
  add_traffic(entry, gradient, traffic);
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::mixed_adamw", traffic);
  if (!parameter.is_cpu()) return;
  const cpu::StoredWeights weights = stored_weights(entry);
  const int64_t elements = parameter.numel();
  if (!entry.first.scales.defined()) {
    const cpu::StoredMoments moments = stored_moments(entry);
    at::parallel_for(0, elements, kElementsPerTask, [&](int64_t first, int64_t last) {
      cpu::adamw(step, weights, ops::rows(gradient), moments, draws, first, last);
    });
    return;
  }
  const cpu::QuantizedMoments moments = quantized_moments(entry);
  constexpr int64_t kBlock = quant::kDynamicBlock;
  at::parallel_for(0, divide_up(elements, kBlock), kElementsPerTask / kBlock, [&](int64_t first, int64_t last) {
    cpu::adamw(step, weights, ops::rows(gradient), moments, draws, first * kBlock, std::min(last * kBlock, elements));
  });
}

cpu::StoredMoments MixedAdamW::stored_moments(const Entry& entry) {
  return {ops::rows(entry.first.values), ops::rows(entry.second.values)};
}

cpu::QuantizedMoments MixedAdamW::quantized_moments(const Entry& entry) {
  return {entry.first.values.data_ptr<uint8_t>(), entry.first.scales.data_ptr<float>(),
          entry.second.values.data_ptr<uint8_t>(), entry.second.scales.data_ptr<float>()};
}

}  // namespace fathom::optim
