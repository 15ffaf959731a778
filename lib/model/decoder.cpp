// The decoder: its parameters from a folder or drawn at random, and its forward passes.
#include "model/decoder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "arch/parameter_table.h"
#include "base/error.h"
#include "model/base_parameters.h"
#include "model/decoder_layer.h"
#include "ops/activation_checkpoint.h"
#include "ops/cuda_kernels.h"
#include "ops/int8_linear.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/rotary.h"
#include "ops/scalar_type.h"
#include "ops/tied_embedding.h"
#include "ops/token_logprobs.h"

namespace fathom::model {
namespace {

void seed_generator(at::Device device, uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace

KeyValueCache::KeyValueCache(const arch::Architecture& architecture, int64_t batch, int64_t capacity, at::Device device,
                             at::ScalarType dtype) {
  const ledger::ClaimScope cache(memory::Component::kFunctionality);
  const auto options = at::TensorOptions().device(device).dtype(dtype);
  for (const arch::LayerSpec& layer : architecture.layers) {
    const std::vector<int64_t> sizes = {batch, layer.attention.key_value_heads, capacity, layer.attention.head_dim};
    keys_BKSE.push_back(at::empty(sizes, options));
    values_BKSE.push_back(at::empty(sizes, options));
  }
}

struct Decoder::State {
  State(const arch::Architecture& architecture_in, const ModelOptions& options_in)
      : architecture(architecture_in),
        options(options_in),
        names(options.ledger, ""),
        rotary(arch::rotary_frequencies(architecture.rope_theta, architecture.head_dim(), architecture.rope_scaling),
               options.device, options.ledger),
        anchor(at::empty({0}, at::TensorOptions().device(options.device)).set_requires_grad(true)) {
    if (options.cuda_kernels && !options.device.is_cuda()) {
      throw UsageError("cuda_kernels is true, but this run is on the CPU", "set cuda_kernels: false or device: cuda");
    }
    ops::use_cuda_kernels(options.cuda_kernels);
  }

  arch::Architecture architecture;
  ModelOptions options;
  ops::ModuleNames names;
  std::vector<Parameter> parameters;
  std::vector<BaseParameter> base;       // these are the first of `parameters`, quantized matrices by their parts
  std::map<std::string, size_t> places;  // of these, by name
  std::map<std::string, at::Tensor> adapters;
  std::vector<bool> layer_trains;  // whether anything of the layer is trained
  bool training = false;
  at::Tensor embedding_VD, norm_D, head_VD;
  std::vector<DecoderLayer> layers;
  ops::RotaryTable rotary;
  at::Tensor anchor;
  std::map<at::ScalarType, footprint::AttentionKernel> kernels;

  at::Tensor add_parameter(const arch::ParameterRow& row);
  void add_quantized(BaseParameter& parameter, quant::Scheme scheme, const ops::QuantTables& tables);
  void add_parameters(const arch::ParameterTable& table);
  double dropout() const { return options.parameters.lora ? options.parameters.lora->dropout : 0; }
  const BaseParameter& parameter(const std::string& name) const { return base[places.at(name)]; }
  const at::Tensor& tensor(const std::string& name) const { return parameter(name).tensor; }
  ops::Linear make_linear(const std::string& module) const;
  void initialise_adapters();
  void order_codes();
  footprint::AttentionKernel kernel(at::ScalarType dtype);
  LayerContext context(int64_t rows, int64_t first, int64_t length);
  LayerContext packed_context(const std::shared_ptr<const ops::Documents>& documents);
  // The stream, and the head as its gradient's node knows it.
  ops::TiedEmbedding embed(const at::Tensor& ids_BS) const;
  at::Tensor last_norm(const at::Tensor& stream_TD) const;
  at::Tensor head(const at::Tensor& x_TD) const;
};

at::Tensor Decoder::State::add_parameter(const arch::ParameterRow& row) {
  at::Tensor tensor =
      at::empty(row.spec.shape, at::TensorOptions().device(options.device).dtype(ops::scalar_type(row.dtype)));
  tensor.set_requires_grad(row.trained);
  if (options.ledger != nullptr) options.ledger->claim(tensor, memory::Component::kWeights, row.spec.name);
  parameters.push_back({row.spec.name, tensor, row.trained, row.decays()});
  return tensor;
}

void Decoder::State::add_quantized(BaseParameter& parameter, quant::Scheme scheme, const ops::QuantTables& tables) {
  const std::vector<int64_t>& sizes = parameter.spec.shape;
  const ops::QuantizedMatrix matrix = ops::empty_quantized_matrix(scheme, sizes[0], sizes[1], options.device, tables);
  const auto add = [&](const char* part, const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    const std::string name = parameter.spec.name + part;
    if (options.ledger != nullptr) options.ledger->claim(tensor, memory::Component::kWeights, name);
    parameters.push_back({name, tensor, /*trained=*/false, /*decays=*/true});
  };
  add("", matrix.codes);
  add(".scales", matrix.scales);
  add(".outer_scales", matrix.outer_scales);
  parameter.quantized = matrix;
}

void Decoder::State::add_parameters(const arch::ParameterTable& table) {
  ops::QuantTables tables;
  if (options.parameters.base_scheme) tables = ops::make_quant_tables(*options.parameters.base_scheme, options.device);
  layer_trains.resize(architecture.layers.size());
  for (const arch::ParameterRow& row : table.rows) {
    if (row.trained && row.spec.layer != arch::ParameterSpec::kNoLayer) {
      layer_trains[static_cast<size_t>(row.spec.layer)] = true;
    }
    if (row.spec.role == arch::Role::kStepSizes) {
      base.back().name_of_step_sizes = row.spec.name;
      base.back().quantizer = ops::FakeQuantizer{*options.parameters.fake_scheme, add_parameter(row)};
    } else if (!row.of_base()) {
      adapters[row.spec.name] = add_parameter(row);
    } else {
      places[row.spec.name] = base.size();
      BaseParameter& parameter = base.emplace_back(BaseParameter{row.spec});
      if (row.codes) {
        add_quantized(parameter, *row.codes, tables);
      } else {
        parameter.tensor = add_parameter(row);
      }
    }
  }
}

ops::Linear Decoder::State::make_linear(const std::string& module) const {
  const BaseParameter& weight = parameter(module + ".weight");
  const bool biased = places.contains(module + ".bias");
  ops::Linear linear{weight.tensor, biased ? tensor(module + ".bias") : at::Tensor(), std::nullopt, weight.quantized};
  linear.quantizer = weight.quantizer;
  linear.int8_activations = options.int8_activations && weight.quantized;
  const auto a = adapters.find(module + ".lora_A.weight");
  if (a == adapters.end()) return linear;
  const arch::LoraOptions& lora = *options.parameters.lora;
  ops::LoraAdapter adapter;
  adapter.a_RD = a->second;
  adapter.b_NR = adapters.at(module + ".lora_B.weight");
  adapter.scaling = lora.scaling();
  adapter.dropout = lora.dropout;
  linear.adapter = std::move(adapter);
  return linear;
}

void Decoder::State::initialise_adapters() {
  for (const Parameter& parameter : parameters) {
    if (!adapters.contains(parameter.name)) continue;
    if (parameter.name.ends_with(".lora_B.weight")) {
      parameter.tensor.zero_();
      continue;
    }
    // Kaiming-uniform with a = sqrt(5): bound = sqrt(6 / ((1 + a^2) fan_in)) = 1 / sqrt(fan_in).
    const double bound = 1 / std::sqrt(static_cast<double>(parameter.tensor.size(1)));
    parameter.tensor.uniform_(-bound, bound);
  }
}

// Of weights that are read by products of INT8 alone, once they are there.
void Decoder::State::order_codes() {
  for (DecoderLayer& layer : layers) {
    for (ops::Linear* linear : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
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
  context.norm_eps = architecture.rms_norm_eps;
  std::tie(context.cos_SE2, context.sin_SE2) = rotary.rows(first, length);
  context.kernel = kernel(ops::ComputeScope(options.device, embedding_VD.scalar_type()).dtype());
  context.rounds_inputs = options.fake_activations;
  context.training = training;
  return context;
}

// Every document begins at position 0: the rows of the tables are gathered once for all layers.
LayerContext Decoder::State::packed_context(const std::shared_ptr<const ops::Documents>& documents) {
  LayerContext packed = context(1, 0, documents->longest);
  packed.documents = documents;
  packed.cos_SE2 = packed.cos_SE2.index_select(0, documents->positions_T);
  packed.sin_SE2 = packed.sin_SE2.index_select(0, documents->positions_T);
  return packed;
}

ops::TiedEmbedding Decoder::State::embed(const at::Tensor& ids_BS) const {
  names.forward("model.embed_tokens");
  const bool both_trained =
      architecture.tie_word_embeddings && embedding_VD.requires_grad() && at::GradMode::is_enabled();
  ops::TiedEmbedding embedded =
      both_trained
          ? ops::embed_tied(embedding_VD, ids_BS)
          : ops::TiedEmbedding{at::embedding(embedding_VD, ids_BS).view({-1, architecture.hidden_size}), head_VD};
  names.backward(embedded.stream_TD, "model.embed_tokens");
  return embedded;
}

at::Tensor Decoder::State::last_norm(const at::Tensor& stream_TD) const {
  const ops::ComputeScope compute(options.device, head_VD.scalar_type());
  names.forward("model.norm");
  at::Tensor x_TD = ops::rms_norm(stream_TD, norm_D, architecture.rms_norm_eps, compute.dtype());
  names.backward(x_TD, "model.norm");
  return x_TD;
}

at::Tensor Decoder::State::head(const at::Tensor& x_TD) const {
  const ops::ComputeScope compute(options.device, head_VD.scalar_type());
  names.forward("lm_head");
  at::Tensor logits_TV = ops::linear(ops::LinearInput(x_TD), {head_VD, {}, {}}, compute, /*training=*/false);
  names.backward(logits_TV, "lm_head");
  return logits_TV;
}

Decoder::Decoder(const arch::Architecture& architecture, const ModelOptions& options)
    : state_(std::make_shared<State>(architecture, options)) {
  State& state = *state_;
  state.add_parameters(arch::parameter_table(architecture, options.parameters));
  state.embedding_VD = state.tensor("model.embed_tokens.weight");
  state.norm_D = state.tensor("model.norm.weight");
  state.head_VD = architecture.tie_word_embeddings ? state.embedding_VD : state.tensor("lm_head.weight");
  for (const arch::LayerSpec& spec : architecture.layers) {
    const std::string prefix = "model.layers." + std::to_string(state.layers.size()) + ".";
    auto linear = [&](const char* name) { return state.make_linear(prefix + name); };
    DecoderLayer layer;
    layer.names = ops::ModuleNames(options.ledger, prefix);
    layer.spec = spec;
    layer.attention_norm_D = state.tensor(prefix + spec.norm_names().attention + ".weight");
    layer.q = linear("self_attn.q_proj");
    layer.k = linear("self_attn.k_proj");
    layer.v = linear("self_attn.v_proj");
    layer.o = linear("self_attn.o_proj");
    if (spec.attention.query_key_norm != arch::QueryKeyNorm::kNone) {
      layer.query_norm = state.tensor(prefix + "self_attn.q_norm.weight");
      layer.key_norm = state.tensor(prefix + "self_attn.k_norm.weight");
    }
    layer.feed_forward_norm_D = state.tensor(prefix + spec.norm_names().feed_forward + ".weight");
    layer.gate = linear("mlp.gate_proj");
    layer.up = linear("mlp.up_proj");
    layer.down = linear("mlp.down_proj");
    state.layers.push_back(std::move(layer));
  }
}

void Decoder::load(const weights::ModelFolder& folder, uint64_t seed) {
  const at::NoGradGuard no_gradients;
  load_base(state_->base, state_->architecture, folder);
  state_->order_codes();
  seed_generator(state_->options.device, seed);
  state_->initialise_adapters();
}

void Decoder::initialise(uint64_t seed) {
  const at::NoGradGuard no_gradients;
  seed_generator(state_->options.device, seed);
  initialise_base(state_->base, state_->architecture);
  state_->order_codes();
  state_->initialise_adapters();
}

void Decoder::reserve_positions(int64_t length) { state_->rotary.reserve(length); }

Decoder::HiddenStates Decoder::hidden_states(const at::Tensor& ids_BS,
                                             const std::shared_ptr<const ops::Documents>& documents) {
  const std::shared_ptr<State> state = state_;
  const int64_t rows = ids_BS.size(0), length = ids_BS.size(1);
  const LayerContext context = documents ? state->packed_context(documents) : state->context(rows, 0, length);
  const bool checkpointed = state->options.gradient_checkpointing && state->training && at::GradMode::is_enabled();
  ops::CheckpointOptions checkpoint{state->options.ledger, state->dropout() > 0};
  ops::TiedEmbedding embedded = state->embed(ids_BS);
  at::Tensor stream_TD = std::move(embedded.stream_TD);
  for (size_t i = 0; i < state->layers.size(); ++i) {
    // What nothing needs a gradient of keeps nothing: there is nothing to compute again.
    if (!checkpointed || (!stream_TD.requires_grad() && !state->layer_trains[i])) {
      stream_TD = run_layer(state->layers[i], stream_TD, context);
      continue;
    }
    // The segment holds the state, so that the layer outlives the graph.
    auto segment = [state, i, context](const at::Tensor& x_TD) { return run_layer(state->layers[i], x_TD, context); };
    stream_TD = ops::checkpoint(segment, stream_TD, state->anchor, checkpoint);
    state->layers[i].names.backward(stream_TD, "recomputed");
  }
  return {state->last_norm(stream_TD), std::move(embedded.head_VD)};
}

at::Tensor Decoder::forward(const at::Tensor& ids_BS, const std::shared_ptr<const ops::Documents>& documents) {
  return state_->head(hidden_states(ids_BS, documents).x_TD)
      .view({ids_BS.size(0), ids_BS.size(1), state_->architecture.vocab_size});
}

at::Tensor Decoder::loss(const at::Tensor& ids_BS, const ops::LossTargets& targets,
                         const std::shared_ptr<const ops::Documents>& documents) {
  HiddenStates last = hidden_states(ids_BS, documents);
  const ops::ComputeScope compute(state_->options.device, state_->head_VD.scalar_type());
  state_->names.forward("loss");
  at::Tensor loss = ops::head_loss(std::move(last.x_TD), last.head_VD, compute.weight(state_->head_VD), targets);
  state_->names.backward(loss, "loss");
  return loss;
}

at::Tensor Decoder::token_logprobs(const at::Tensor& ids_BS, const at::Tensor& targets_BS, int64_t chunk_rows,
                                   const std::shared_ptr<const ops::Documents>& documents) {
  const HiddenStates last = hidden_states(ids_BS, documents);
  const ops::ComputeScope compute(state_->options.device, state_->head_VD.scalar_type());
  state_->names.forward("loss");
  at::Tensor logprobs_T = ops::token_logprobs(last.x_TD, last.head_VD, compute.weight(state_->head_VD),
                                              targets_BS.reshape({-1}), chunk_rows);
  state_->names.backward(logprobs_T, "loss");
  return logprobs_T.view(targets_BS.sizes());
}

at::Tensor Decoder::forward(const at::Tensor& ids_BS, KeyValueCache& cache) {
  const at::NoGradGuard no_gradients;
  const int64_t rows = ids_BS.size(0), length = ids_BS.size(1);
  const int64_t capacity = cache.keys_BKSE.front().size(2);
  if (cache.length + length > capacity) {
    throw Error("the key and value cache holds " + std::to_string(capacity) + " positions, but " +
                std::to_string(cache.length + length) + " are needed");
  }
  const LayerContext context = state_->context(rows, cache.length, length);
  at::Tensor stream_TD = state_->embed(ids_BS).stream_TD;
  for (size_t i = 0; i < state_->layers.size(); ++i) {
    CachedLayer layer{cache.keys_BKSE[i], cache.values_BKSE[i], cache.length};
    stream_TD = run_layer(state_->layers[i], stream_TD, context, &layer);
  }
  cache.length += length;
  return state_->head(state_->last_norm(stream_TD.view({rows, length, -1}).select(1, length - 1).contiguous()));
}

const std::vector<Parameter>& Decoder::parameters() const { return state_->parameters; }

std::vector<Parameter> Decoder::trained_parameters() const {
  std::vector<Parameter> trained;
  for (const Parameter& parameter : state_->parameters) {
    if (parameter.trained) trained.push_back(parameter);
  }
  return trained;
}

const arch::Architecture& Decoder::architecture() const { return state_->architecture; }
const ModelOptions& Decoder::options() const { return state_->options; }
void Decoder::set_training(bool training) { state_->training = training; }

}  // namespace fathom::model
