// The model: its parameters from a folder or drawn at random, and its forward passes.
#include "model/decoder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "model/relative_bias.h"
#include "ops/activation_checkpoint.h"
#include "ops/cuda_kernels.h"
#include "ops/dropout.h"
#include "ops/int8_linear.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/rotary.h"
#include "ops/tied_embedding.h"
#include "ops/token_logprobs.h"

namespace fathom::model {
namespace {

// Which of a layer's inputs there are.
std::vector<at::Tensor LayerInputs::*> places_of(const LayerInputs& inputs) {
  std::vector<at::Tensor LayerInputs::*> places;
  for (const auto place : {&LayerInputs::stream_TD, &LayerInputs::source_TD, &LayerInputs::by_distance_HN}) {
    if ((inputs.*place).defined()) places.push_back(place);
  }
  return places;
}

const ModelOptions& prepared(const ModelOptions& options) {
  if (options.cuda_kernels && !options.device.is_cuda()) {
    throw UsageError("cuda_kernels is true, but this run is on the CPU", "set cuda_kernels: false or device: cuda");
  }
  ops::use_cuda_kernels(options.cuda_kernels);
  return options;
}

std::vector<ops::RotaryTable> rotary_tables(const arch::Architecture& architecture, const ModelOptions& options) {
  std::vector<ops::RotaryTable> tables;
  for (const arch::Rotary& rotary : architecture.rotaries())
    tables.emplace_back(rotary, options.device, options.ledger);
  return tables;
}

double rounded(double value, at::ScalarType type) {
  const auto wide = static_cast<float>(value);
  if (type == at::kBFloat16) return static_cast<float>(c10::BFloat16(wide));
  return type == at::kHalf ? static_cast<float>(c10::Half(wide)) : wide;
}

}  // namespace

KeyValueCache::KeyValueCache(const arch::Architecture& architecture, int64_t batch, int64_t capacity, at::Device device,
                             at::ScalarType dtype) {
  const ledger::ClaimScope cache(memory::Component::kFunctionality);
  const auto options = at::TensorOptions().device(device).dtype(dtype);
  for (int64_t number = architecture.encoder_layers(); number < architecture.num_hidden_layers(); ++number) {
    const arch::Attention& attention = architecture.layers[static_cast<size_t>(number)].attention;
    const std::vector<int64_t> sizes = {batch, attention.key_value_heads, capacity, attention.head_dim};
    keys_BKSE.push_back(at::empty(sizes, options));
    values_BKSE.push_back(at::empty(sizes, options));
  }
  source_keys_BSKE.resize(keys_BKSE.size());
  source_values_BSKE.resize(keys_BKSE.size());
}

struct Decoder::State : std::enable_shared_from_this<Decoder::State> {
  State(const arch::Architecture& architecture_in, const ModelOptions& options_in)
      : architecture(architecture_in),
        options(prepared(options_in)),
        names(options.ledger, ""),
        module_names(architecture.names()),
        rotary(rotary_tables(architecture, options)),
        parameters(architecture, options),
        anchor(at::empty({0}, at::TensorOptions().device(options.device)).set_requires_grad(true)) {}

  arch::Architecture architecture;
  ModelOptions options;
  ops::ModuleNames names;
  arch::ModelNames module_names;
  std::vector<ops::RotaryTable> rotary;  // for each of the architecture's rotaries()
  ModelParameters parameters;
  bool training = false;
  at::Tensor embedding_VD, encoder_norm_D, norm_D, head_VD;
  double embedding_scale = 1;  // as the embedding's type holds it
  std::vector<DecoderLayer> layers;
  std::optional<RelativeBias> encoder_bias, decoder_bias;  // where positions are relative
  at::Tensor anchor;
  std::map<at::ScalarType, footprint::AttentionKernel> kernels;

  bool draws() const {
    return architecture.dropout > 0 || (options.parameters.lora && options.parameters.lora->dropout > 0);
  }
  void order_codes();
  footprint::AttentionKernel kernel(at::ScalarType dtype);
  LayerContext context(int64_t rows, int64_t first, int64_t length);
  // Of the routers of a pass that makes a loss; null where they add nothing to it.
  std::shared_ptr<ops::Balance> balance(const Inputs& inputs) const;
  LayerContext packed_context(const std::shared_ptr<const ops::Documents>& documents);
  // The stream, and the head as its gradient's node knows it.
  ops::TiedEmbedding embed(const at::Tensor& ids_BS) const;
  // Layers [first, end), each checkpointed where that saves anything.
  at::Tensor run_stack(int64_t first, int64_t end, LayerInputs inputs, const LayerContext& context);
  // The new tokens; where LongRoPE turns those in the cache otherwise than before, these as well: the cache is empty
  // then.
  at::Tensor ids_to_read(const at::Tensor& ids_BS, KeyValueCache& cache) const;
  // What the encoder makes of its stream, [B * S, D].
  at::Tensor encode(at::Tensor stream_TD, const Inputs& inputs);
  at::Tensor norm(const at::Tensor& stream_TD, const at::Tensor& weight_D, const char* name) const;
  // What the head reads.
  at::Tensor last_norm(const at::Tensor& stream_TD) const;
  at::Tensor head(const at::Tensor& x_TD) const;
  ops::NormSettings norm_settings() const { return {architecture.norm_eps, architecture.norm_offset}; }
  double dropout() const { return training ? architecture.dropout : 0; }
};

// Of weights that are read by products of INT8 alone, once they are there.
void Decoder::State::order_codes() {
  for (DecoderLayer& layer : layers) {
    std::vector<ops::Linear*> linears = {&layer.up, &layer.down};
    for (auto* linear : {&layer.fused, &layer.gate, &layer.attention.fused}) {
      if (*linear) linears.push_back(&**linear);
    }
    for (AttentionWeights* attention : {&layer.attention, layer.cross ? &*layer.cross : nullptr}) {
      if (attention == nullptr) continue;
      linears.insert(linears.end(), {&attention->q, &attention->k, &attention->v, &attention->o});
    }
    for (ops::Linear* linear : linears) {
      if (linear->int8_activations) ops::order_in_tiles(*linear->quantized_ND);
    }
  }
}

footprint::AttentionKernel Decoder::State::kernel(at::ScalarType dtype) {
  auto found = kernels.find(dtype);
  if (found == kernels.end()) {
    found =
        kernels.emplace(dtype, ops::attention_kernel(options.attention, options.device, dtype, architecture.head_dim()))
            .first;
  }
  return found->second;
}

LayerContext Decoder::State::context(int64_t rows, int64_t first, int64_t length) {
  LayerContext context;
  context.rows = rows;
  context.norm = norm_settings();
  context.biased = architecture.relative.has_value();
  for (ops::RotaryTable& table : rotary) context.turns.push_back(table.rows(first, length));
  if (!context.biased) context.kernel = kernel(ops::ComputeScope(options.device, embedding_VD.scalar_type()).dtype());
  context.dropout = dropout();
  context.rounds_inputs = options.fake_activations;
  context.training = training;
  return context;
}

// Every document begins at position 0: the rows of the tables are gathered once for all layers.
LayerContext Decoder::State::packed_context(const std::shared_ptr<const ops::Documents>& documents) {
  LayerContext packed = context(1, 0, documents->longest);
  packed.documents = documents;
  for (ops::Turns& turns : packed.turns) turns = ops::at_positions(turns, documents->positions_T);
  return packed;
}

ops::TiedEmbedding Decoder::State::embed(const at::Tensor& ids_BS) const {
  names.forward(module_names.embedding);
  const bool both_trained =
      architecture.tie_word_embeddings && embedding_VD.requires_grad() && at::GradMode::is_enabled();
  ops::TiedEmbedding embedded = both_trained ? ops::embed_tied(embedding_VD, ids_BS)
                                             : ops::TiedEmbedding{at::embedding(embedding_VD, ids_BS), head_VD};
  if (embedding_scale != 1) embedded.stream_TD.mul_(embedding_scale);
  embedded.stream_TD = ops::dropout(embedded.stream_TD, dropout()).view({-1, architecture.hidden_size});
  names.backward(embedded.stream_TD, module_names.embedding);
  return embedded;
}

at::Tensor Decoder::State::norm(const at::Tensor& stream_TD, const at::Tensor& weight_D, const char* name) const {
  const ops::ComputeScope compute(options.device, head_VD.scalar_type());
  names.forward(name);
  at::Tensor x_TD = ops::rms_norm(stream_TD, weight_D, norm_settings(), compute.dtype());
  names.backward(x_TD, name);
  return x_TD;
}

at::Tensor Decoder::State::last_norm(const at::Tensor& stream_TD) const {
  at::Tensor x_TD = ops::dropout(norm(stream_TD, norm_D, module_names.norm), dropout());
  return architecture.head_scale == 1 ? x_TD : x_TD.mul_(architecture.head_scale);
}

at::Tensor Decoder::State::head(const at::Tensor& x_TD) const {
  const ops::ComputeScope compute(options.device, head_VD.scalar_type());
  names.forward(module_names.head);
  at::Tensor logits_TV = ops::linear(ops::LinearInput(x_TD), {head_VD, {}, {}}, compute, /*training=*/false);
  names.backward(logits_TV, module_names.head);
  return logits_TV;
}

at::Tensor Decoder::State::ids_to_read(const at::Tensor& ids_BS, KeyValueCache& cache) const {
  bool keeps_ids = false, turns_anew = false;
  for (const ops::RotaryTable& table : rotary) {
    const int64_t original = table.original_positions(), end = cache.length + ids_BS.size(1);
    keeps_ids = keeps_ids || original > 0;
    turns_anew = turns_anew || (original > 0 && cache.length > 0 && cache.length <= original && end > original);
  }
  if (!keeps_ids) return ids_BS;
  cache.ids_BS = cache.length > 0 ? at::cat({cache.ids_BS, ids_BS}, 1) : ids_BS.clone();
  if (!turns_anew) return ids_BS;
  cache.length = 0;
  return cache.ids_BS;
}

Decoder::Decoder(const arch::Architecture& architecture, const ModelOptions& options)
    : state_(std::make_shared<State>(architecture, options)) {
  State& state = *state_;
  const arch::ModelNames& names = state.module_names;
  const auto weight = [&](const std::string& module) { return state.parameters.tensor(module + ".weight"); };
  state.embedding_VD = weight(names.embedding);
  state.embedding_scale = rounded(architecture.embedding_scale, state.embedding_VD.scalar_type());
  state.norm_D = weight(names.norm);
  state.head_VD = architecture.tie_word_embeddings ? state.embedding_VD : weight(names.head);
  const std::vector<arch::Rotary> rotaries = architecture.rotaries();
  for (int64_t number = 0; number < architecture.num_hidden_layers(); ++number) {
    DecoderLayer& layer = state.layers.emplace_back(state.parameters.layer(architecture, number));
    const std::optional<arch::Rotary>& rotary = layer.spec.attention.rotary;
    if (rotary)
      layer.rotary = static_cast<size_t>(std::find(rotaries.begin(), rotaries.end(), *rotary) - rotaries.begin());
  }
  if (architecture.encoder) state.encoder_norm_D = weight(names.encoder_norm);
  if (!architecture.relative) return;
  const auto bias = [&](int64_t first_layer, bool both_ways) {
    return RelativeBias(*architecture.relative, weight(architecture.layer_prefix(first_layer) + names.relative_bias),
                        both_ways, options.ledger);
  };
  state.encoder_bias.emplace(bias(0, true));
  state.decoder_bias.emplace(bias(architecture.encoder_layers(), false));
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

at::Tensor Decoder::State::run_stack(int64_t first, int64_t end, LayerInputs inputs, const LayerContext& context) {
  const bool checkpointed = options.gradient_checkpointing && training && at::GradMode::is_enabled();
  const ops::CheckpointOptions checkpoint{options.ledger, draws()};
  for (int64_t number = first; number < end; ++number) {
    const DecoderLayer& layer = layers[static_cast<size_t>(number)];
    // What nothing needs a gradient of keeps nothing: there is nothing to compute again.
    const auto needs = [](const at::Tensor& x) { return x.defined() && x.requires_grad(); };
    const bool keeps =
        parameters.trains(number) || needs(inputs.stream_TD) || needs(inputs.source_TD) || needs(inputs.by_distance_HN);
    if (!checkpointed || !keeps) {
      inputs.stream_TD = run_layer(layer, inputs, context);
      continue;
    }
    // The segment holds the state, so that the layer outlives the graph.
    const auto places = places_of(inputs);
    auto segment = [state = shared_from_this(), &layer, context, places](const std::vector<at::Tensor>& defined) {
      LayerInputs again;
      for (size_t i = 0; i < places.size(); ++i) again.*places[i] = defined[i];
      return run_layer(layer, again, context);
    };
    std::vector<at::Tensor> defined;
    defined.reserve(places.size());
    for (const auto place : places) defined.push_back(inputs.*place);
    inputs.stream_TD = ops::checkpoint(segment, defined, anchor, checkpoint);
    layer.names.backward(inputs.stream_TD, "recomputed");
  }
  return inputs.stream_TD;
}

at::Tensor Decoder::State::encode(at::Tensor stream_TD, const Inputs& inputs) {
  const int64_t rows = inputs.source_BS.size(0), length = inputs.source_BS.size(1);
  LayerContext encoder = context(rows, 0, length);
  encoder.hidden_BS = inputs.source_hidden_BS;
  const at::Tensor last_TD = run_stack(0, architecture.encoder_layers(),
                                       {std::move(stream_TD), {}, encoder_bias->by_distance(length, length)}, encoder);
  return ops::dropout(norm(last_TD, encoder_norm_D, module_names.encoder_norm), dropout());
}

std::shared_ptr<ops::Balance> Decoder::State::balance(const Inputs& inputs) const {
  if (!training || architecture.router_aux_loss_coef == 0) return nullptr;
  const at::Tensor real_T = inputs.real_BS.defined() ? inputs.real_BS.reshape({-1}) : at::Tensor();
  return std::make_shared<ops::Balance>(architecture.router_aux_loss_coef, architecture.experts()->count, real_T);
}

Decoder::HiddenStates Decoder::hidden_states(const Inputs& inputs, std::shared_ptr<ops::Balance> balance) {
  const std::shared_ptr<State> state = state_;
  const int64_t rows = inputs.ids_BS.size(0), length = inputs.ids_BS.size(1);
  LayerContext context = inputs.documents ? state->packed_context(inputs.documents) : state->context(rows, 0, length);
  context.balance = std::move(balance);
  ops::TiedEmbedding embedded;
  LayerInputs layer_inputs;
  if (state->architecture.encoder) {
    // One embedding of both, so that its gradient is one.
    embedded = state->embed(at::cat({inputs.source_BS.flatten(), inputs.ids_BS.flatten()}));
    auto streams = embedded.stream_TD.split_with_sizes({inputs.source_BS.numel(), rows * length});
    embedded.stream_TD.reset();
    layer_inputs.source_TD = state->encode(std::move(streams[0]), inputs);
    layer_inputs.stream_TD = std::move(streams[1]);
    layer_inputs.by_distance_HN = state->decoder_bias->by_distance(length, length);
    context.source_hidden_BS = inputs.source_hidden_BS;
  } else {
    embedded = state->embed(inputs.ids_BS);
    layer_inputs.stream_TD = std::move(embedded.stream_TD);
  }
  const at::Tensor stream_TD = state->run_stack(
      state->architecture.encoder_layers(), state->architecture.num_hidden_layers(), std::move(layer_inputs), context);
  return {state->last_norm(stream_TD), std::move(embedded.head_VD)};
}

at::Tensor Decoder::forward(const Inputs& inputs) {
  return state_->head(hidden_states(inputs).x_TD)
      .view({inputs.ids_BS.size(0), inputs.ids_BS.size(1), state_->architecture.vocab_size});
}

at::Tensor Decoder::loss(const Inputs& inputs, const ops::LossTargets& targets, double router_share) {
  const std::shared_ptr<ops::Balance> balance = state_->balance(inputs);
  HiddenStates last = hidden_states(inputs, balance);
  const ops::ComputeScope compute(state_->options.device, state_->head_VD.scalar_type());
  state_->names.forward("loss");
  at::Tensor loss = ops::head_loss(std::move(last.x_TD), last.head_VD, compute.weight(state_->head_VD), targets);
  if (balance) loss = balance->complete(loss, router_share, targets.gradient_scale);
  state_->names.backward(loss, "loss");
  return loss;
}

at::Tensor Decoder::token_logprobs(const Inputs& inputs, const at::Tensor& targets_BS, int64_t chunk_rows) {
  const HiddenStates last = hidden_states(inputs);
  const ops::ComputeScope compute(state_->options.device, state_->head_VD.scalar_type());
  state_->names.forward("loss");
  at::Tensor logprobs_T = ops::token_logprobs(last.x_TD, last.head_VD, compute.weight(state_->head_VD),
                                              targets_BS.reshape({-1}), chunk_rows);
  state_->names.backward(logprobs_T, "loss");
  return logprobs_T.view(targets_BS.sizes());
}

at::Tensor Decoder::forward(const Inputs& inputs, KeyValueCache& cache) {
  const at::NoGradGuard no_gradients;
  const at::Tensor ids_BS = state_->ids_to_read(inputs.ids_BS, cache);
  const int64_t rows = ids_BS.size(0), length = ids_BS.size(1);
  const int64_t capacity = cache.keys_BKSE.front().size(2);
  if (cache.length + length > capacity) {
    throw Error("the key and value cache holds " + std::to_string(capacity) + " positions, but " +
                std::to_string(cache.length + length) + " are needed");
  }
  reserve_positions(capacity);
  LayerContext context = state_->context(rows, cache.length, length);
  LayerInputs layer_inputs;
  if (inputs.source_BS.defined()) {
    layer_inputs.source_TD = state_->encode(state_->embed(inputs.source_BS).stream_TD, inputs);
    cache.source_hidden_BS = inputs.source_hidden_BS;
  }
  context.source_hidden_BS = cache.source_hidden_BS;
  if (state_->decoder_bias) {
    layer_inputs.by_distance_HN = state_->decoder_bias->by_distance(length, cache.length + length);
  }
  layer_inputs.stream_TD = state_->embed(ids_BS).stream_TD;
  const auto first = static_cast<size_t>(state_->architecture.encoder_layers());
  for (size_t i = 0; i < cache.keys_BKSE.size(); ++i) {
    CachedLayer layer{cache.keys_BKSE[i], cache.values_BKSE[i], cache.length, &cache.source_keys_BSKE[i],
                      &cache.source_values_BSKE[i]};
    layer_inputs.stream_TD = run_layer(state_->layers[first + i], layer_inputs, context, &layer);
  }
  cache.length += length;
  const at::Tensor last_BD = layer_inputs.stream_TD.view({rows, length, -1}).select(1, length - 1).contiguous();
  return state_->head(state_->last_norm(last_BD));
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
