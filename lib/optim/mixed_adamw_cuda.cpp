// AdamW in several types by the kernel for GPUs, which takes all parameters at once and nothing besides.
#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include "optim/mixed_adamw.h"

namespace fathom::optim {

ops::UpdatedParameter MixedAdamW::updated(const Entry& entry, const at::Tensor& gradient) const {
  ops::UpdatedParameter parameter;
  parameter.weights = stored_weights(entry);
  parameter.gradient = ops::rows(gradient);
  if (entry.first.scales.defined()) {
    parameter.codes = quantized_moments(entry);
  } else {
    parameter.moments = stored_moments(entry);
  }
  parameter.draws = draw_stream(entry);
  parameter.elements = entry.parameter.numel();
  parameter.decays = entry.decays;
  parameter.nearest_moments = options_.moments == footprint::MomentStorage::kAsWeights;
  return parameter;
}

void MixedAdamW::update_by_cuda_kernel(std::span<const Entry> entries, double learning_rate,
                                       const at::Tensor& gradient_factor) const {
  ops::MixedAdamWUpdate update;
  update.step = adamw_step(options_.update, steps(), learning_rate, options_.update.weight_decay);
  if (gradient_factor.defined()) update.factor = gradient_factor.const_data_ptr<float>();
  const auto device_table = [](const Table& table) -> ops::DynamicTable {
    if (!table.values_256.defined()) return {};
    const int zero = static_cast<int>(table.zero);
    return {table.values_256.const_data_ptr<float>(), table.borders_255.const_data_ptr<float>(), zero};
  };
  update.first = device_table(tables_.first);
  update.second = device_table(tables_.second);

  std::vector<ops::UpdatedParameter> parameters;
  std::vector<c10::IValue> traffic;
  const auto launch = [&] {
    const at::Tensor& any = entries.front().parameter;
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::mixed_adamw", traffic);
    ops::check_launch("mixed_adamw", options_.cuda_kernels->mixed_adamw(update, parameters.data(),
                                                                        static_cast<int64_t>(parameters.size()),
                                                                        ops::current_stream(any)));
    parameters.clear();
    traffic.clear();
  };
  for (const Entry& entry : entries) {
    const at::Tensor gradient = entry.gradient.to(entry.parameter.scalar_type()).contiguous();
    parameters.push_back(updated(entry, gradient));
    add_traffic(entry, gradient, traffic);
    if (!gradient.is_same(entry.gradient)) launch();  // one copy at a time
  }
  if (!parameters.empty()) launch();
}

}  // namespace fathom::optim
