// Finds the two stacks of a layer's experts among its rows.
#include "plan/estimate/expert_operators.h"

#include "plan/estimate/parameter_gradients.h"

namespace fathom::plan {

using arch::ParameterRow;

footprint::ExpertSizes expert_sizes(const arch::FeedForward& feed_forward, int64_t width,
                                    const std::vector<const ParameterRow*>& rows, const arch::Casts& casts) {
  footprint::ExpertSizes sizes;
  sizes.count = feed_forward.experts->count;
  sizes.per_token = feed_forward.experts->per_token;
  sizes.width = width;
  sizes.inner = feed_forward.width;
  sizes.biased = feed_forward.experts->biased;
  sizes.scores = feed_forward.experts->scores;
  sizes.clamped = feed_forward.experts->clamped.has_value();
  for (const ParameterRow* row : rows) {
    if (row->spec.role != arch::Role::kExperts) continue;
    footprint::StackSizes& stack = row->spec.name.ends_with(".down_proj") ? sizes.down : sizes.gate_up;
    stack = {row->trained, row->adapter_rank, row->codes, casts.have(*row)};
    stack.trains_biases = stack.trained && sizes.biased;
  }
  return sizes;
}

footprint::Tensors gradients_of_stack(const std::vector<const ParameterRow*>& rows, const std::string& module,
                                      const std::string& which) {
  footprint::Tensors gradients;
  std::string adapter;
  for (const ParameterRow* row : rows) {
    const std::string stack = "." + module + which;
    const bool is_stack = row->spec.name.ends_with(stack), is_bias = row->spec.name.ends_with(stack + "_bias");
    if (is_stack) adapter = row->adapter;
    const bool of_adapter = !row->of_base() && !adapter.empty() && row->spec.name.starts_with(adapter + ".lora_");
    if (row->trained && (is_stack || is_bias || of_adapter)) gradients.push_back(gradient_of(*row));
  }
  return gradients;
}

}  // namespace fathom::plan
