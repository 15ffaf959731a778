// `fathom logits`: the raw logits of a sequence as a safetensors file, for comparison with other implementations.
#include "app/commands/logits.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "app/engine.h"
#include "app/run/model.h"
#include "app/run/session.h"
#include "base/error.h"
#include "checkpoint/adapter.h"
#include "checkpoint/named_tensors.h"
#include "ops/autocast.h"
#include "ops/tf32.h"
#include "train/inputs.h"
#include "train/trainer.h"

namespace fathom::app {
namespace {

void refuse_beyond(const arch::Architecture& architecture, const char* option, const std::vector<int64_t>& ids) {
  for (int64_t id : ids) {
    if (id >= 0 && id < architecture.vocab_size) continue;
    throw UsageError(std::string(option) + ": " + std::to_string(id) + " is outside the vocabulary of " +
                     std::to_string(architecture.vocab_size));
  }
}

int run_logits(const Logits& invocation) {
  config::RunConfig config = config_with_adapter(invocation);
  const Session session = open_session(invocation);
  keep_within_budget(invocation.config.memory_budget, session);
  const schedule::RunInputs inputs = train::open_inputs(config);
  refuse_beyond(inputs.architecture, "--ids", invocation.ids);
  refuse_beyond(inputs.architecture, "--decoder-ids", invocation.decoder_ids);
  const bool encodes = inputs.architecture.encoder.has_value();
  if (encodes == invocation.decoder_ids.empty()) {
    throw UsageError(encodes ? "the model has a decoder beside its encoder, and it reads ids too"
                             : "--decoder-ids: the model is a decoder, which reads --ids",
                     encodes ? "add --decoder-ids, from the token that the decoder starts with" : "");
  }
  if (!config.dtype)
    config.dtype = inputs.architecture.dtype_in_use();  // nothing is trained: as the checkpoint stores it
  const arch::Run run = checkpoint::resolve_adapted(config, inputs.architecture);
  model::Decoder model(run.architecture, options_for_use(invocation, run, session.placement));
  load_weights(model, invocation, *inputs.folder);
  model.set_training(false);
  const at::NoGradGuard no_gradients;
  const auto row_of = [&](const std::vector<int64_t>& ids) {
    return at::tensor(ids, at::kLong).view({1, -1}).to(session.placement.device);
  };
  model::Inputs read(row_of(encodes ? invocation.decoder_ids : invocation.ids));
  if (encodes) read.source_BS = row_of(invocation.ids);
  ops::use_tf32(config.tf32, session.placement.device);
  const ops::AutocastScope autocast(session.placement.device.type(), train::autocast_type(run.precision));
  const at::Tensor logits_SV = model.forward(read).select(0, 0).to(at::kFloat);
  weights::write_safetensors(invocation.out, checkpoint::tensor_sources({{"logits", logits_SV}}));
  return 0;
}

const InEngine<run_logits> kLogits;

}  // namespace
}  // namespace fathom::app
