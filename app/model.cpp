// Models for the commands that use one.
#include "app/model.h"

#include "checkpoint/adapter.h"

namespace fathom::app {

std::filesystem::path adapter_of(const Invocation& invocation) {
  if (!invocation.adapter.empty()) return invocation.adapter;
  return invocation.config.adapter_name_or_path;
}

config::RunConfig config_with_adapter(const Invocation& invocation) {
  const std::filesystem::path adapter = adapter_of(invocation);
  if (adapter.empty()) return invocation.config;
  config::RunConfig config = checkpoint::with_adapter(invocation.config, adapter);
  config.adapter_name_or_path = adapter.string();
  return config;
}

void load_weights(model::Llama& model, const Invocation& invocation, const weights::ModelFolder& folder) {
  model.load(folder, invocation.seed);
  const std::filesystem::path adapter = adapter_of(invocation);
  if (!adapter.empty()) checkpoint::load_adapter(adapter, model);
}

}  // namespace fathom::app
