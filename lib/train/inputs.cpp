// What a run's inputs say together.
#include "train/inputs.h"

#include "checkpoint/adapter.h"

namespace fathom::train {

RunInputs open_inputs(const config::RunConfig& config, bool weights_required) {
  RunInputs inputs = read_inputs(config, weights_required);
  const bool may_resume = !config.resume_from_checkpoint.empty();  // then find_resume knows
  if (!config.adapter_name_or_path.empty() && !may_resume) checkpoint::refuse_other_adapter(config, inputs.shape);
  return inputs;
}

DType storage_dtype(const config::RunConfig& config, const model::ModelShape& shape) {
  if (config.dtype) return *config.dtype;
  return config.method == config::Method::kFull ? DType::kF32 : shape.dtype;
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
