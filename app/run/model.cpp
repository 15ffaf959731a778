// Models for the commands that use one.
#include "app/run/model.h"

#include <string>

#include "base/error.h"
#include "checkpoint/adapter.h"
#include "ops/linear/int8_linear.h"
#include "quant/layout.h"
#include "train/trainer.h"

namespace fathom::app {
namespace {

// Sums of INT8 products are INT32; aten::_int_mm on a GPU takes multiples of 8.
void check_sides(const arch::Architecture& architecture, at::Device device) {
  for (const arch::ParameterSpec& spec : arch::parameter_specs(architecture)) {
    if (spec.role != arch::Role::kProjection) continue;
    if (spec.shape[1] > ops::kMostInt8Columns) {
      throw UsageError("--activations int8: " + spec.name + " has rows of " + std::to_string(spec.shape[1]) +
                           " numbers, whose sums of products may leave INT32",
                       "leave --activations out");
    }
    if (device.is_cuda() && (spec.shape[0] % 8 != 0 || spec.shape[1] % 8 != 0)) {
      throw UsageError("--activations int8: " + spec.name + " is " + std::to_string(spec.shape[0]) + " x " +
                           std::to_string(spec.shape[1]) +
                           ", but LibTorch's INT8 product takes multiples of 8 on a GPU",
                       "add device=cpu, or leave --activations out");
    }
  }
}

}  // namespace

std::filesystem::path adapter_of(const ModelUse& invocation) {
  if (!invocation.adapter.empty()) return invocation.adapter;
  return invocation.config.adapter_name_or_path;
}

config::RunConfig config_with_adapter(const ModelUse& invocation) {
  const std::filesystem::path adapter = adapter_of(invocation);
  if (adapter.empty()) return invocation.config;
  config::RunConfig config = checkpoint::with_adapter(invocation.config, adapter);
  config.adapter_name_or_path = adapter.string();
  return config;
}

model::ModelOptions options_for_use(const ModelUse& invocation, const arch::Run& run,
                                    const train::Placement& placement) {
  model::ModelOptions options = train::model_options(run, placement);
  if (invocation.activations != "int8") return options;
  if (!options.parameters.base_scheme) options.parameters.base_scheme = quant::Scheme::kInt8;
  if (!quant::is_int8(*options.parameters.base_scheme)) {
    throw UsageError("--activations int8 multiplies by weights in INT8, but these are in " +
                         std::string(quant::name_of(*options.parameters.base_scheme)),
                     "leave --activations out, or take the folder before it was quantized");
  }
  check_sides(run.architecture, placement.device);
  options.int8_activations = true;
  return options;
}

void load_weights(model::Decoder& model, const ModelUse& invocation, const weights::ModelFolder& folder) {
  const std::filesystem::path adapter = adapter_of(invocation);
  if (!adapter.empty()) {  // before the base is read
    checkpoint::require_adapter_of(adapter, model);
    checkpoint::warn_of_other_base(adapter, folder.path());
  }
  model.load(folder, invocation.seed);
  if (!adapter.empty()) checkpoint::load_adapter(adapter, model);
}

}  // namespace fathom::app
