// Embeddings, stacks of layers and the head.
#include "model/decoder_state.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "arch/attention_by_scores.h"
#include "arch/recorded_layers.h"
#include "base/error.h"
#include "ops/activation_checkpoint.h"
#include "ops/attention/biased_attention.h"
#include "ops/cuda_kernels.h"
#include "ops/dropout.h"
#include "ops/linear/int8_linear.h"
#include "ops/linear/linear.h"
#include "ops/softcap.h"

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

Decoder::State::State(const arch::Architecture& architecture_in, const ModelOptions& options_in)
    : architecture(architecture_in),
      options(prepared(options_in)),
      names(options.ledger, ""),
      module_names(architecture.names()),
      rotary(rotary_tables(architecture, options)),
      parameters(architecture, options),
      anchor(at::empty({0}, at::TensorOptions().device(options.device)).set_requires_grad(true)) {
  const arch::ModelNames& modules = module_names;
  const auto weight = [&](const std::string& module) { return parameters.tensor(module + ".weight"); };
  embedding_VD = weight(modules.embedding);
  embedding_scale = rounded(architecture.embedding_scale, embedding_VD.scalar_type());
  if (architecture.learned_positions) positions_PD = weight(modules.positions);
  last_norm_weights = parameters.norm(modules.norm);
  head_VD = architecture.tie_word_embeddings ? embedding_VD : weight(modules.head);
  if (!architecture.tie_word_embeddings) head_cast_VD = parameters.cast(modules.head + std::string(".weight"));
  const std::vector<arch::Rotary> rotaries = architecture.rotaries();
  for (int64_t number = 0; number < architecture.num_hidden_layers(); ++number) {
    DecoderLayer& layer = layers.emplace_back(parameters.layer(architecture, number));
    if (!layer.spec.attends()) continue;
    const std::optional<arch::Rotary>& its = layer.spec.attention().rotary;
    if (its) layer.rotary = static_cast<size_t>(std::find(rotaries.begin(), rotaries.end(), *its) - rotaries.begin());
  }
  if (options.records != nullptr) {
    std::vector<at::Tensor> trained;
    for (const Parameter& parameter : parameters.all()) {
      if (parameter.trained) trained.push_back(parameter.tensor);
    }
    recorded = std::make_unique<ops::RecordedSegments>(*options.records, std::move(trained), arch::kMostRecorded);
  }
  if (architecture.encoder) encoder_norm = parameters.norm(modules.encoder_norm);
  if (!architecture.relative) return;
  const auto bias = [&](int64_t first_layer, bool both_ways) {
    return RelativeBias(*architecture.relative, weight(architecture.layer_prefix(first_layer) + modules.relative_bias),
                        both_ways, options.ledger);
  };
  encoder_bias.emplace(bias(0, true));
  decoder_bias.emplace(bias(architecture.encoder_layers(), false));
}

// Of weights that are read by products of INT8 alone, once they are there.
void Decoder::State::order_codes() {
  for (DecoderLayer& layer : layers) {
    for (StepWeights& weights : layer.weights) {
      if (weights.linear.int8_activations) ops::order_in_tiles(*weights.linear.quantized_ND);
    }
  }
}

const std::map<int64_t, footprint::AttentionKernel>& Decoder::State::kernels_of(at::ScalarType dtype) {
  const auto [found, is_new] = kernels.try_emplace(dtype);
  if (is_new) {
    for (const int64_t size : architecture.head_dims()) {
      found->second[size] =
          ops::attention_kernel(options.attention, options.device, dtype, size, architecture.has_sinks());
    }
  }
  return found->second;
}

LayerContext Decoder::State::context(int64_t rows, int64_t first, int64_t length) {
  LayerContext context;
  context.rows = rows;
  context.seen = first;
  context.norm = norm_settings();
  context.by_scores = arch::attends_by_scores(architecture, training);
  for (ops::RotaryTable& table : rotary) context.turns.push_back(table.rows(first, length));
  if (!context.by_scores) {
    context.kernels = &kernels_of(ops::ComputeScope(options.device, embedding_VD.scalar_type()).dtype());
  } else if (!architecture.relative) {
    const auto causal = [&](int64_t window) {
      return ops::causal_by_distance(architecture.attention().heads, length, first + length, window, options.device);
    };
    context.causal_HN = causal(0);
    if (architecture.sliding_window() > 0) context.causal_in_window_HN = causal(architecture.sliding_window());
  }
  context.dropout = dropout();
  context.inner_dropout = inner_dropout();
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

at::Tensor Decoder::State::positions(int64_t first, int64_t length) const {
  if (!positions_PD.defined()) return {};
  if (first + length > positions_PD.size(0)) {
    throw UsageError("a text of " + std::to_string(first + length) + " tokens, but the model has learned " +
                         std::to_string(positions_PD.size(0)) + " positions",
                     "give it a shorter text");
  }
  return at::arange(first, first + length, at::TensorOptions().device(options.device).dtype(at::kLong));
}

ops::TiedEmbedding Decoder::State::embed(const at::Tensor& ids_BS, const at::Tensor& positions_S) const {
  names.forward(module_names.embedding);
  const bool both_trained =
      architecture.tie_word_embeddings && embedding_VD.requires_grad() && at::GradMode::is_enabled();
  ops::TiedEmbedding embedded = both_trained ? ops::embed_tied(embedding_VD, ids_BS)
                                             : ops::TiedEmbedding{at::embedding(embedding_VD, ids_BS), head_VD};
  if (embedding_scale != 1) embedded.stream_TD.mul_(embedding_scale);
  if (positions_PD.defined()) {
    const at::Tensor rows = at::embedding(positions_PD, positions_S.expand_as(ids_BS));
    embedded.stream_TD.add_(rows.view_as(embedded.stream_TD));
  }
  embedded.stream_TD = ops::dropout(embedded.stream_TD, embedding_dropout()).view({-1, architecture.hidden_size});
  names.backward(embedded.stream_TD, module_names.embedding);
  return embedded;
}

at::Tensor Decoder::State::norm(const at::Tensor& stream_TD, const ops::NormWeights& weights, const char* name) const {
  const ops::ComputeScope compute(options.device, head_VD.scalar_type());
  names.forward(name);
  at::Tensor x_TD = ops::norm(stream_TD, weights, norm_settings(), compute.dtype());
  names.backward(x_TD, name);
  return x_TD;
}

at::Tensor Decoder::State::last_norm(const at::Tensor& stream_TD) const {
  at::Tensor x_TD = ops::dropout(norm(stream_TD, last_norm_weights, module_names.norm), inner_dropout());
  return architecture.head_scale == 1 ? x_TD : x_TD.mul_(architecture.head_scale);
}

at::Tensor Decoder::State::head(const at::Tensor& x_TD) const {
  const ops::ComputeScope compute(options.device, head_VD.scalar_type());
  names.forward(module_names.head);
  ops::Linear layer{head_VD, {}, {}};
  layer.cast_ND = head_cast_VD;
  const at::Tensor made_TV = ops::linear(ops::LinearInput(x_TD), layer, compute, /*training=*/false);
  at::Tensor logits_TV = ops::softcapped(made_TV, architecture.head_softcap);
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

at::Tensor Decoder::State::run_stack(int64_t first, int64_t end, LayerInputs inputs, const LayerContext& context) {
  const bool checkpointed = options.gradient_checkpointing && training && at::GradMode::is_enabled();
  const ops::CheckpointOptions checkpoint{options.ledger, draws()};
  for (int64_t number = first; number < end; ++number) {
    const DecoderLayer& layer = layers[static_cast<size_t>(number)];
    const int64_t unit = number + 1;
    before_unit(unit);
    // What nothing needs a gradient of keeps nothing: there is nothing to compute again.
    const auto needs = [](const at::Tensor& x) { return x.defined() && x.requires_grad(); };
    const bool keeps =
        parameters.trains(number) || needs(inputs.stream_TD) || needs(inputs.source_TD) || needs(inputs.by_distance_HN);
    if (!checkpointed || !keeps) {
      inputs.stream_TD = run_layer(layer, inputs, context);
      after_unit(unit, inputs.stream_TD);
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
    after_unit(unit, inputs.stream_TD);
  }
  return inputs.stream_TD;
}

at::Tensor Decoder::State::run_layers(int64_t rows, at::Tensor stream_TD, const LayerContext& context) {
  const int64_t layers_end = architecture.num_hidden_layers();
  if (recorded == nullptr || !training || !at::GradMode::is_enabled()) {
    return run_stack(0, layers_end, {std::move(stream_TD), {}, {}}, context);
  }
  const int64_t length = stream_TD.size(0) / rows;
  // What a recording reads must be made in it, or stay: rotary tables may be replaced by longer ones.
  const auto all_layers = [this, rows, length, layers_end,
                           kept = std::make_shared<LayerContext>()](const at::Tensor& input_TD) {
    *kept = this->context(rows, 0, length);
    return run_stack(0, layers_end, {input_TD, {}, {}}, *kept);
  };
  return recorded->run({rows, length}, all_layers, stream_TD, anchor);
}

at::Tensor Decoder::State::encode(at::Tensor stream_TD, const Inputs& inputs) {
  const int64_t rows = inputs.source_BS.size(0), length = inputs.source_BS.size(1);
  LayerContext encoder = context(rows, 0, length);
  encoder.hidden_BS = inputs.source_hidden_BS;
  const at::Tensor last_TD = run_stack(0, architecture.encoder_layers(),
                                       {std::move(stream_TD), {}, encoder_bias->by_distance(length, length)}, encoder);
  return ops::dropout(norm(last_TD, encoder_norm, module_names.encoder_norm), inner_dropout());
}

std::shared_ptr<ops::Balance> Decoder::State::balance(const Inputs& inputs) const {
  if (!training || architecture.router_aux_loss_coef == 0) return nullptr;
  const at::Tensor real_T = inputs.real_BS.defined() ? inputs.real_BS.reshape({-1}) : at::Tensor();
  return std::make_shared<ops::Balance>(architecture.router_aux_loss_coef, architecture.experts()->count, real_T);
}

}  // namespace fathom::model
