// What a run's inputs say together.
#include "train/inputs.h"

#include "base/error.h"
#include "checkpoint/adapter.h"
#include "config/precision.h"
#include "model/llama.h"
#include "train/trainer.h"

namespace fathom::train {

RunInputs open_inputs(const config::RunConfig& config, bool weights_required) {
  RunInputs inputs = read_inputs(config, weights_required);
  const bool may_resume = !config.resume_from_checkpoint.empty();  // then find_resume knows
  if (!config.adapter_name_or_path.empty() && !may_resume) {
    refuse_other_adapter(config, inputs.shape, weights_required);
  }
  if (config.cuda_kernels && compute_dtype(config, inputs.shape) == DType::kF16) {
    throw UsageError("cuda_kernels: true, but this run computes in FP16, and these kernels take FP32 and BF16",
                     "set cuda_kernels: false, or dtype: bfloat16");
  }
  return inputs;
}

void refuse_other_adapter(const config::RunConfig& config, const model::ModelShape& shape, bool weights_required) {
  checkpoint::refuse_other_adapter(config, shape);
  const std::filesystem::path adapter = config.adapter_name_or_path;
  if (!weights_required && !checkpoint::has_adapter_weights(adapter)) return;
  // The run's model without memory behind its tensors.
  model::ModelOptions options = model_options(config, shape, {at::kMeta, nullptr, nullptr});
  options.cuda_kernels = false;
  checkpoint::require_adapter_of(adapter, model::Llama(shape, options));
}

DType storage_dtype(const config::RunConfig& config, const model::ModelShape& shape) {
  if (config.dtype) return *config.dtype;
  if (config.method == config::Method::kFull) return DType::kF32;
  const std::optional<DType> autocast = config::autocast_dtype(config);
  return autocast && size_of(shape.dtype) == size_of(*autocast) ? *autocast : shape.dtype;
}

DType compute_dtype(const config::RunConfig& config, const model::ModelShape& shape) {
  return config::autocast_dtype(config).value_or(storage_dtype(config, shape));
}

bool saves_checkpoints(const config::RunConfig& config) {
  return config.save_strategy != config::Cadence::kNo || config.load_best_model_at_end;
}

int32_t padding_id(const RunInputs& inputs) {
  if (inputs.tokenizer && inputs.tokenizer->pad_id) return *inputs.tokenizer->pad_id;
  if (inputs.shape.pad_token_id) return static_cast<int32_t>(*inputs.shape.pad_token_id);
  return 0;
}

}  // namespace fathom::train
