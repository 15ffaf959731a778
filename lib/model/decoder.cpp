// The model: its parameters from a folder or drawn at random, and its forward passes.
#include "model/decoder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "footprint/loss_chunk.h"
#include "model/decoder_state.h"
#include "ops/linear/linear.h"
#include "ops/token_logprobs.h"

namespace fathom::model {

KeyValueCache::KeyValueCache(const arch::Architecture& architecture, int64_t batch, int64_t most, at::Device device,
                             at::ScalarType dtype)
    : capacity(most) {
  const ledger::ClaimScope cache(memory::Component::kFunctionality);
  const auto options = at::TensorOptions().device(device).dtype(dtype);
  for (auto number = static_cast<size_t>(architecture.encoder_layers()); number < architecture.layers.size();
       ++number) {
    LayerState& state = layers.emplace_back();
    for (const auto& kept : arch::kept_while_generating(architecture, architecture.layers[number], batch, most)) {
      state.kept.push_back(at::empty(kept.sizes, kept.in_fp32 ? options.dtype(at::kFloat) : options));
    }
  }
}

Decoder::Decoder(const arch::Architecture& architecture, const ModelOptions& options)
    : state_(std::make_shared<State>(architecture, options)) {}

// Where a step failed between its passes, a recording keeps a graph whose checkpoints keep the state.
Decoder::~Decoder() {
  if (state_) state_->recorded.reset();
}

void Decoder::load(const weights::ModelFolder& folder, uint64_t seed) {
  state_->parameters.load(state_->architecture, folder, seed);
  state_->order_codes();
}

void Decoder::initialise(uint64_t seed) {
  state_->parameters.initialise(state_->architecture, seed);
  state_->order_codes();
}

void Decoder::reserve_positions(int64_t length) {
  for (ops::RotaryTable& table : state_->rotary) table.reserve(length);
  for (auto* bias : {&state_->encoder_bias, &state_->decoder_bias}) {
    if (*bias) (*bias)->reserve(length);
  }
}

Decoder::HiddenStates Decoder::hidden_states(const Inputs& inputs, std::shared_ptr<ops::Balance> balance) {
  const std::shared_ptr<State> state = state_;
  state->parameters.cast_adapters();
  const int64_t rows = inputs.ids_BS.size(0), length = inputs.ids_BS.size(1);
  LayerContext context = inputs.documents ? state->packed_context(inputs.documents) : state->context(rows, 0, length);
  context.balance = std::move(balance);
  ops::TiedEmbedding embedded;
  at::Tensor stream_TD;
  state->before_unit(0);
  if (state->architecture.encoder) {
    LayerInputs layer_inputs;
    // One embedding of both, so that its gradient is one.
    embedded = state->embed(at::cat({inputs.source_BS.flatten(), inputs.ids_BS.flatten()}));
    state->after_unit(0, embedded.stream_TD);
    auto streams = embedded.stream_TD.split_with_sizes({inputs.source_BS.numel(), rows * length});
    embedded.stream_TD.reset();
    layer_inputs.source_TD = state->encode(std::move(streams[0]), inputs);
    layer_inputs.stream_TD = std::move(streams[1]);
    layer_inputs.by_distance_HN = state->decoder_bias->by_distance(length, length);
    context.source_hidden_BS = inputs.source_hidden_BS;
    stream_TD = state->run_stack(state->architecture.encoder_layers(), state->architecture.num_hidden_layers(),
                                 std::move(layer_inputs), context);
  } else {
    embedded =
        state->embed(inputs.ids_BS, inputs.documents ? inputs.documents->positions_T : state->positions(0, length));
    state->after_unit(0, embedded.stream_TD);
    stream_TD = state->run_layers(rows, std::move(embedded.stream_TD), context);
  }
  state->before_unit(state->last_unit());
  return {state->last_norm(stream_TD), std::move(embedded.head_VD)};
}

at::Tensor Decoder::forward(const Inputs& inputs) {
  const at::Tensor logits_TV = state_->head(hidden_states(inputs).x_TD);
  state_->after_unit(state_->last_unit(), logits_TV);
  return logits_TV.view({inputs.ids_BS.size(0), inputs.ids_BS.size(1), state_->architecture.vocab_size});
}

at::Tensor Decoder::loss(const Inputs& inputs, ops::LossTargets targets, double router_share) {
  targets.softcap = state_->architecture.head_softcap;
  const std::shared_ptr<ops::Balance> balance = state_->balance(inputs);
  HiddenStates last = hidden_states(inputs, balance);
  if (at::GradMode::is_enabled()) {
    targets.spare_bytes =
        footprint::bytes_beside_gate(last.x_TD.size(0), state_->architecture.widest_gate(), last.x_TD.element_size());
  }
  const ops::ComputeScope compute(state_->options.device, state_->head_VD.scalar_type());
  state_->names.forward("loss");
  at::Tensor loss = ops::head_loss(std::move(last.x_TD), last.head_VD,
                                   compute.weight(state_->head_VD, state_->head_cast_VD), targets);
  if (balance) {
    loss = balance->complete(loss, router_share, targets.gradient_scale);
    state_->router_loss = balance->value();
  }
  state_->names.backward(loss, "loss");
  state_->after_unit(state_->last_unit(), loss);
  return loss;
}

at::Tensor Decoder::take_router_loss() { return std::move(state_->router_loss); }

at::Tensor Decoder::logprobs(const Inputs& inputs, const at::Tensor& rows_N, const at::Tensor& targets_N,
                             int64_t chunk_rows) {
  HiddenStates last = hidden_states(inputs);
  const ops::ComputeScope compute(state_->options.device, state_->head_VD.scalar_type());
  state_->names.forward("loss");
  if (rows_N.defined()) last.x_TD = ops::gather_rows(last.x_TD, rows_N);
  at::Tensor logprobs_N =
      ops::token_logprobs(last.x_TD, last.head_VD, compute.weight(state_->head_VD, state_->head_cast_VD), targets_N,
                          chunk_rows, state_->architecture.head_softcap);
  state_->names.backward(logprobs_N, "loss");
  state_->after_unit(state_->last_unit(), logprobs_N);
  return logprobs_N;
}

at::Tensor Decoder::token_logprobs(const Inputs& inputs, const at::Tensor& targets_BS, int64_t chunk_rows) {
  return logprobs(inputs, {}, targets_BS.reshape({-1}), chunk_rows).view(targets_BS.sizes());
}

at::Tensor Decoder::sequence_logprobs(const Inputs& inputs, const at::Tensor& rows_N, const at::Tensor& targets_N,
                                      int64_t chunk_rows, double gradient_scale) {
  at::Tensor sums_B = ops::sequence_sums(logprobs(inputs, rows_N, targets_N, chunk_rows), rows_N, inputs.ids_BS.size(0),
                                         inputs.ids_BS.size(1));
  if (gradient_scale != 1 && sums_B.requires_grad()) {
    sums_B.register_hook([gradient_scale](const at::Tensor& gradient) { return gradient * gradient_scale; });
  }
  return sums_B;
}

void Decoder::leave_out(KeyValueCache& cache, int64_t length) {
  if (cache.length >= length) return;
  cache.length = length;
  if (cache.ids_BS.defined()) cache.ids_BS = at::zeros({cache.ids_BS.size(0), cache.length}, cache.ids_BS.options());
}

at::Tensor Decoder::forward(const Inputs& inputs, KeyValueCache& cache) {
  const at::NoGradGuard no_gradients;
  const at::Tensor ids_BS = state_->ids_to_read(inputs.ids_BS, cache);
  const int64_t rows = ids_BS.size(0), length = ids_BS.size(1);
  if (cache.length + length > cache.capacity) {
    throw Error("the cache holds " + std::to_string(cache.capacity) + " positions, but " +
                std::to_string(cache.length + length) + " are needed");
  }
  reserve_positions(cache.capacity);
  state_->parameters.cast_adapters();
  LayerContext context = state_->context(rows, cache.length, length);
  LayerInputs layer_inputs;
  state_->before_unit(0);
  if (inputs.source_BS.defined()) {
    layer_inputs.source_TD = state_->encode(state_->embed(inputs.source_BS).stream_TD, inputs);
    cache.source_hidden_BS = inputs.source_hidden_BS;
  }
  context.source_hidden_BS = cache.source_hidden_BS;
  if (state_->decoder_bias) {
    layer_inputs.by_distance_HN = state_->decoder_bias->by_distance(length, cache.length + length);
  }
  layer_inputs.stream_TD = state_->embed(ids_BS, state_->positions(cache.length, length)).stream_TD;
  state_->after_unit(0, layer_inputs.stream_TD);
  const auto first = static_cast<size_t>(state_->architecture.encoder_layers());
  for (size_t i = 0; i < cache.layers.size(); ++i) {
    const auto unit = static_cast<int64_t>(first + i) + 1;
    state_->before_unit(unit);
    layer_inputs.stream_TD = run_layer(state_->layers[first + i], layer_inputs, context, &cache.layers[i]);
    state_->after_unit(unit, layer_inputs.stream_TD);
  }
  cache.length += length;
  const at::Tensor last_BD = layer_inputs.stream_TD.view({rows, length, -1}).select(1, length - 1).contiguous();
  state_->before_unit(state_->last_unit());
  at::Tensor logits_BV = state_->head(state_->last_norm(last_BD));
  state_->after_unit(state_->last_unit(), logits_BV);
  return logits_BV;
}

const std::vector<Parameter>& Decoder::parameters() const { return state_->parameters.all(); }

std::vector<Parameter> Decoder::trained_parameters() const {
  std::vector<Parameter> trained;
  for (const Parameter& parameter : state_->parameters.all()) {
    if (parameter.trained) trained.push_back(parameter);
  }
  return trained;
}

const arch::Architecture& Decoder::architecture() const { return state_->architecture; }
const ModelOptions& Decoder::options() const { return state_->options; }
void Decoder::set_training(bool training) { state_->training = training; }

}  // namespace fathom::model
