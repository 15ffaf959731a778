// What a run's inputs say together.
#include "train/inputs.h"

#include "checkpoint/adapter.h"
#include "model/decoder.h"
#include "train/trainer.h"

namespace fathom::train {

schedule::RunInputs open_inputs(const config::RunConfig& config, bool weights_required) {
  schedule::RunInputs inputs = schedule::read_inputs(config, weights_required);
  const bool may_resume = !config.resume_from_checkpoint.empty();  // then find_resume knows
  if (!config.adapter_name_or_path.empty() && !may_resume) {
    refuse_other_adapter(config, inputs, weights_required);
  }
  return inputs;
}

void refuse_other_adapter(const config::RunConfig& config, const schedule::RunInputs& inputs, bool weights_required) {
  const arch::Run run = checkpoint::resolve_adapted(config, inputs.architecture);
  const std::filesystem::path adapter = config.adapter_name_or_path;
  if (!weights_required && !checkpoint::has_adapter_weights(adapter)) return;
  // The run's model without memory behind its tensors.
  model::ModelOptions options = model_options(run, {at::kMeta, nullptr, nullptr});
  options.cuda_kernels = false;
  checkpoint::require_adapter_of(adapter, model::Decoder(run.architecture, options));
}

}  // namespace fathom::train
