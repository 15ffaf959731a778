// Models for the commands that use one.
#include "app/model.h"

#include "checkpoint/adapter.h"

namespace fathom::app {

config::RunConfig config_with_adapter(const Invocation& invocation) {
  if (invocation.adapter.empty()) return invocation.config;
  return checkpoint::with_adapter(invocation.config, invocation.adapter);
}

void load_weights(model::Llama& model, const Invocation& invocation, const weights::ModelFolder& folder) {
  model.load(folder, invocation.seed);
  if (!invocation.adapter.empty()) checkpoint::load_adapter(invocation.adapter, model);
}

}  // namespace fathom::app
