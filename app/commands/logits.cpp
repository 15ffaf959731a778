// `fathom logits`: the raw logits of a sequence as a safetensors file, for comparison with other implementations.
#include "app/commands/logits.h"

#include <ATen/ATen.h>

#include "app/engine.h"
#include "app/model.h"
#include "app/session.h"
#include "base/error.h"
#include "checkpoint/named_tensors.h"
#include "ops/autocast.h"
#include "ops/tf32.h"
#include "train/inputs.h"
#include "train/trainer.h"

namespace fathom::app {
namespace {

int run_logits(const Logits& invocation) {
  config::RunConfig config = config_with_adapter(invocation);
  const Session session = open_session(invocation);
  keep_within_budget(invocation.config.memory_budget, session);
  const schedule::RunInputs inputs = train::open_inputs(config);
  for (int64_t id : invocation.ids) {
    if (id < 0 || id >= inputs.architecture.vocab_size) {
      throw UsageError("--ids: " + std::to_string(id) + " is outside the vocabulary of " +
                       std::to_string(inputs.architecture.vocab_size));
    }
  }
  if (!config.dtype) config.dtype = inputs.architecture.dtype;  // nothing is trained: as the checkpoint stores it
  model::Decoder model(inputs.architecture,
                       options_for_use(invocation, config, inputs.architecture, session.placement));
  load_weights(model, invocation, *inputs.folder);
  model.set_training(false);
  const at::NoGradGuard no_gradients;
  const at::Tensor ids_BS = at::tensor(invocation.ids, at::kLong).view({1, -1}).to(session.placement.device);
  ops::use_tf32(config.tf32, session.placement.device);
  const ops::AutocastScope autocast(session.placement.device.type(), train::autocast_type(config));
  const at::Tensor logits_SV = model.forward(ids_BS).select(0, 0).to(at::kFloat);
  weights::write_safetensors(invocation.out, checkpoint::tensor_sources({{"logits", logits_SV}}));
  return 0;
}

const InEngine<run_logits> kLogits;

}  // namespace
}  // namespace fathom::app
