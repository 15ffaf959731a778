// The operators outside the layers, and which layers are alike.
#include "plan/estimate/step_operators.h"

#include <algorithm>
#include <string>
#include <utility>

#include "footprint/elementwise.h"
#include "footprint/embedding.h"
#include "footprint/head_loss.h"
#include "footprint/loss_chunk.h"
#include "plan/estimate/layer_operators.h"
#include "plan/estimate/parameter_gradients.h"

namespace fathom::plan {

using arch::ParameterRow;
using arch::Role;
using footprint::Bytes;
using footprint::Tensors;

bool StepOperators::Kind::operator==(const Kind& other) const {
  const auto alike = [](const ParameterRow* x, const ParameterRow* y) {
    return x->trained == y->trained && x->codes == y->codes && x->spec.role == y->spec.role &&
           x->spec.shape == y->spec.shape;
  };
  return *spec == *other.spec && input_needs_gradient == other.input_needs_gradient &&
         source_needs_gradient == other.source_needs_gradient &&
         std::equal(rows.begin(), rows.end(), other.rows.begin(), other.rows.end(), alike);
}

StepOperators::StepOperators(const arch::Run& run, const Target& target) : run_(run), target_(target) {
  const arch::Architecture& architecture = run.architecture;
  const arch::ParameterTable& parameters = run.parameters;
  std::vector<Kind> each(architecture.layers.size());
  for (const ParameterRow& row : parameters.rows) {
    if (row.spec.layer < 0) {
      others_.push_back(&row);
      continue;
    }
    Kind& kind = each[static_cast<size_t>(row.spec.layer)];
    kind.rows.push_back(&row);
    kind.trained = kind.trained || row.trained;
  }
  const bool embedding_trained = parameters.rows.front().trained;
  const auto encoder_layers = static_cast<size_t>(architecture.encoder_layers());
  bool needs = embedding_trained, source_needs = false;
  for (size_t layer = 0; layer < each.size(); ++layer) {
    Kind& kind = each[layer];
    if (encoder_layers > 0 && layer == encoder_layers) {
      const std::string norm = architecture.names().encoder_norm + std::string(".weight");
      source_needs = std::exchange(needs, embedding_trained) || parameters.trains(norm);
    }
    kind.input_needs_gradient = needs;
    kind.source_needs_gradient = source_needs;
    kind.spec = &architecture.layers[layer];
    needs = kind.needs_gradients();
    const auto known = std::find(kinds_.begin(), kinds_.end(), kind);
    layers_.push_back(static_cast<size_t>(known - kinds_.begin()));
    if (known == kinds_.end()) kinds_.push_back(std::move(kind));
  }
}

footprint::StepSizes StepOperators::sizes_of(int64_t tokens, bool gradients) const {
  const arch::Precision& precision = run_.precision;
  footprint::StepSizes step;
  step.tokens = tokens;
  step.stored_bytes = size_of(precision.stored);
  step.compute_bytes = size_of(precision.computed);
  step.adapter_bytes = precision.autocast ? 2 : 4;
  step.rank = run_.config.lora_r;
  step.adapters_stay_cast = run_.adapter_casts.has_value();
  step.dropout = gradients && run_.config.lora_dropout > 0;
  step.cuda = target_.device == config::Device::kCuda;
  step.fp8_products = run_.config.fp8;
  step.own_kernels = step.cuda && run_.config.cuda_kernels.value_or(false) && precision.computed != DType::kF16;
  return step;
}

bool StepOperators::head_comes_cast() const {
  return std::any_of(others_.begin(), others_.end(),
                     [&](const ParameterRow* row) { return run_.gathered_casts.have(*row); });
}

Operator StepOperators::norm(const footprint::StepSizes& step, const char* part, const char* name) const {
  return {part,
          footprint::norm_footprint(step, run_.architecture.hidden_size, run_.architecture.centred_norms),
          gradients_of(others_, name),
          {}};
}

// Of what a model has left out of its embedding; with inner dropout, of what an encoder made and of what the head
// reads.
void StepOperators::add_masks(const footprint::StepSizes& step, const footprint::StepSizes& source,
                              BatchOperators& result) const {
  const auto add = [&](const footprint::StepSizes& sizes) {
    for (const Bytes& mask : footprint::dropout_footprint(sizes, run_.architecture.hidden_size).kept) {
      result.loss.push_back(mask);
    }
  };
  if (result.trains_embedding && run_.architecture.embedding_dropout > 0) {
    add(step);
    add(source);
  }
  if (run_.architecture.inner_dropout == 0) return;
  if (run_.architecture.encoder && kinds_[layers_.back()].source_needs_gradient) add(source);
  if (result.needs_gradients.back() || !result.last_norm.gradients.empty()) add(step);
}

Tensors StepOperators::read_by_layers(const schedule::BatchShape& shape, int64_t length) const {
  Tensors read;
  if (run_.architecture.relative) {
    read.push_back({"biases by distance",
                    "of a stack; lib/model/relative_bias.cpp",
                    {{2 * length - 1, "distances"}, {run_.architecture.attention().heads, "heads"}, {4, "bytes"}}});
  }
  if (shape.document_lengths.empty()) return read;
  for (const arch::Rotary& rotary : run_.architecture.rotaries()) {
    read.push_back({"positions of packed rows",
                    "rows of rotary tables, gathered; lib/model/decoder.cpp",
                    {{rotary.scales_queries() ? 4 : 2, "of"},
                     {shape.rows * length, "tokens"},
                     {rotary.width / 2, ""},
                     {4, "bytes"}}});
  }
  return read;
}

// What turns heads or biases scores is kept for the backward pass of either.
bool StepOperators::keeps_what_layers_read(const BatchOperators& batch) const {
  if (run_.config.gradient_checkpointing) return batch.needs_gradients.back();
  return std::any_of(batch.kinds.begin(), batch.kinds.end(), [](const Operators& kind) {
    return std::any_of(kind.begin(), kind.end(),
                       [](const Operator& each) { return each.is_attention && !each.footprint.backward.empty(); });
  });
}

// Who reads a part of the embedding holds the whole.
void StepOperators::add_encoder(const schedule::BatchShape& shape, const footprint::StepSizes& step,
                                const footprint::StepSizes& source, bool gradients, BatchOperators& result) const {
  constexpr const char* kEmbedding = "sources and targets are embedded as one; lib/model/decoder.cpp";
  const int64_t width = run_.architecture.hidden_size;
  result.encoder.read = read_by_layers(shape, shape.source_length);
  result.encoded = {{"what the encoder made", "read by the decoder's layers; lib/model/decoder_layer.cpp",
                     source.wide(width, source.compute_bytes)}};
  const Kind& last = kinds_[layers_.back()];
  result.encoder_norm = norm(source, "the encoder's norm", run_.architecture.names().encoder_norm);
  Tensors& kept = result.encoder_norm.footprint.kept;
  if (!last.source_needs_gradient) kept.clear();
  const auto reads_source = [&](const ParameterRow* row) {
    const bool trained = row->trained || row->adapted() || run_.settings.fake_scheme;
    return trained &&
           (belongs_to(*row, last.spec->names().cross.key) || belongs_to(*row, last.spec->names().cross.value));
  };
  result.keeps_encoded =
      run_.config.gradient_checkpointing || std::any_of(last.rows.begin(), last.rows.end(), reads_source);
  if (result.keeps_encoded) {
    kept.insert(kept.end(), result.encoded.begin(), result.encoded.end());
  }
  if (last.source_needs_gradient) {
    result.encoded_gradient = {
        {"gradient of what the encoder made", footprint::kGradientSource, source.wide(width, source.compute_bytes)}};
  }
  const Bytes targets = {"embedding of targets", kEmbedding, step.wide(width, step.stored_bytes)};
  const bool keeps_input =
      run_.config.gradient_checkpointing ? result.has_backward(1) : result.of_layer(1).front().keeps_stream;
  if (!gradients || keeps_input) {
    result.embedded_targets.push_back(targets);
  }
  if (gradients && result.trains_embedding) {
    result.loss.push_back(
        {"ids of sources and targets", kEmbedding, {{step.tokens + source.tokens, "tokens"}, {8, "bytes"}}});
    result.embedded_targets.push_back(
        {"gradient of targets", footprint::kGradientSource, targets.product, memory::Component::kTemporaryBuffers});
  }
  result.embedded_sources = {{"embedding of sources", kEmbedding, source.wide(width, step.stored_bytes)}};
}

// Without checkpoints. Who reads a part of the embedding holds the whole.
void StepOperators::add_inputs_of_last(const schedule::BatchShape& shape, BatchOperators& result) const {
  const auto last = std::ssize(layers_);
  const auto add = [&](const Tensors& more) {
    result.inputs_of_last.insert(result.inputs_of_last.end(), more.begin(), more.end());
  };
  if (!result.of_layer(last).front().keeps_stream) {
    add(result.stack_of(last).checkpoint);
    const bool reads_targets = run_.architecture.encoder && last == result.encoder_layers + 1;
    if (reads_targets && !result.of_layer(1).front().keeps_stream) add(result.embedded_sources);
  }
  if (run_.architecture.encoder && !result.keeps_encoded) add(result.encoded);
  if (result.decoder.read.empty()) add(read_by_layers(shape, shape.length));
}

// The last norm, and the head with its loss.
void StepOperators::add_head(const schedule::BatchShape& shape, const footprint::StepSizes& step,
                             const footprint::StepSizes& source, bool gradients, BatchOperators& result) const {
  footprint::HeadSizes head = {run_.architecture.vocab_size, run_.architecture.hidden_size, shape.targets,
                               run_.config.loss_chunk_size};
  if (run_.config.loss_chunk_size == 0) head.rows = step.tokens;
  if (gradients) {
    head.spare_bytes = footprint::bytes_beside_gate(step.tokens, run_.architecture.widest_gate(), step.compute_bytes);
  }
  head.trained = gradients && run_.parameters.trains_head();
  head.comes_cast = head_comes_cast();
  result.last_norm = norm(step, "the last norm", run_.architecture.names().norm);
  result.last_norm.takes_stream_gradient = true;
  if (gradients && run_.architecture.dropout > 0) add_masks(step, source, result);
  head.input_needs_gradient = gradients && (result.needs_gradients.back() || !result.last_norm.gradients.empty());
  head.gradients = head.input_needs_gradient || head.trained;
  head.capped = run_.architecture.head_softcap > 0;
  const bool of_sequences = run_.config.objective != config::Objective::kSft;
  result.head = {
      "the loss",
      of_sequences ? footprint::logprobs_footprint(step, head, shape.rows) : footprint::head_loss_footprint(step, head),
      {},
      {}};
  result.head.makes_gradients_late = of_sequences;
}

// Of parameters of no layer, by the operator whose backward pass makes them.
void StepOperators::add_gradients_of_others(BatchOperators& result) const {
  for (const ParameterRow* row : others_) {
    if (row->trained && row->spec.role == Role::kRelativeBias) {
      const bool encodes =
          run_.architecture.encoder && result.encoder.bias_gradients.empty();  // whose table is the first
      BatchOperators::Stack& of_stack = encodes ? result.encoder : result.decoder;
      of_stack.bias_gradients.push_back(gradient_of(*row));
      of_stack.bias_sums = of_stack.read;
      for (Bytes& sum : of_stack.bias_sums) sum.what = "sums of gradients of biases";
    }
    const bool positions = row->spec.role == Role::kPositions;
    if (!row->trained || !(positions || row->spec.has_row_per_token())) continue;
    const bool of_head = row->spec.role == Role::kHead || (run_.architecture.tie_word_embeddings && !positions);
    Operator& its = of_head ? result.head : result.embedding;
    (positions ? result.positions : its).gradients.push_back(gradient_of(*row));
  }
}

BatchOperators StepOperators::of_batch(const schedule::BatchShape& shape, bool gradients) const {
  const footprint::StepSizes step = sizes_of(shape.rows * shape.length, gradients);
  const footprint::StepSizes source = sizes_of(shape.rows * shape.source_length, gradients);
  const int64_t width = run_.architecture.hidden_size;

  BatchOperators result;
  result.loss = {
      {"loss", "a number in FP32", {{4, "bytes"}}},
      {"gradient of the loss", footprint::kGradientSource, {{4, "bytes"}}, memory::Component::kTemporaryBuffers}};
  const auto stack = [&](const footprint::StepSizes& sizes) -> BatchOperators::Stack {
    return {{{"gradient of the residual stream", footprint::kGradientSource, sizes.wide(width, sizes.stored_bytes)}},
            {{"residual stream, kept by checkpoints",
              "a layer keeps its input and runs again (Chen et al. 2016, arXiv 1604.06174)",
              sizes.wide(width, sizes.stored_bytes)}},
            {{"gradient of a layer's output", footprint::kGradientSource, sizes.wide(width, sizes.stored_bytes)}}};
  };
  result.decoder = stack(step);
  if (run_.architecture.encoder) {
    result.encoder = stack(source);
    result.encoder_layers = run_.architecture.encoder_layers();
  }
  result.kinds.reserve(kinds_.size());
  for (const Kind& kind : kinds_) {
    const bool encodes = run_.architecture.encoder && !kind.spec->cross;
    result.kinds.push_back(layer_operators({run_, target_, *kind.spec, kind.rows, shape, encodes ? source : step,
                                            source, gradients, kind.input_needs_gradient, kind.source_needs_gradient}));
  }
  result.layers = layers_;
  result.head_waits = run_.architecture.tie_word_embeddings;
  result.trains_embedding = run_.parameters.rows.front().trained;
  for (const size_t kind : layers_) result.needs_gradients.push_back(kinds_[kind].needs_gradients());
  if (!gradients || keeps_what_layers_read(result)) result.decoder.read = read_by_layers(shape, shape.length);
  if (run_.architecture.encoder) add_encoder(shape, step, source, gradients, result);
  add_inputs_of_last(shape, result);
  add_head(shape, step, source, gradients, result);
  const footprint::StepSizes both = sizes_of(step.tokens + source.tokens, gradients);
  result.embedding = {
      "the embedding",
      footprint::embedding_footprint(both, run_.architecture.vocab_size, width, run_.architecture.tie_word_embeddings),
      {},
      {}};
  result.positions = {"learned positions", {{}, {}, {{}}}, {}, {}};
  add_gradients_of_others(result);
  return result;
}

BatchOperators StepOperators::of_answers(const schedule::AnswerShape& shape) const {
  constexpr auto kOfAnswers = memory::Component::kFunctionality;
  constexpr const char* kIds = "what a pass reads; lib/train/greedy.cpp";
  const arch::Architecture& architecture = run_.architecture;
  BatchOperators result = of_batch({shape.rows, shape.first, shape.rows, {}, shape.source_length}, false);
  result.embedded_targets.clear();  // which come after the encoder
  const footprint::StepSizes last = sizes_of(shape.rows, false);
  const footprint::HeadSizes head = {
      architecture.vocab_size, architecture.hidden_size, shape.rows, 0, 0, false, head_comes_cast(), false, false};
  result.head = {"the head", footprint::head_loss_footprint(last, head), {}, {}};
  result.answers = {{"ids", kIds, {{shape.rows, "rows"}, {shape.first, "tokens"}, {8, "bytes"}}, kOfAnswers},
                    {"ids of sources and their padding",
                     kIds,
                     {{shape.rows, "rows"}, {shape.source_length, "tokens"}, {9, "bytes"}},
                     kOfAnswers}};
  const auto kept = [&](const char* what, const arch::LayerSpec& layer, int64_t positions,
                        memory::Component component) {
    constexpr const char* kCache =
        "keys and values of every position (Pope et al. 2022, arXiv 2211.05102), a convolution's last inputs, or "
        "states";
    Tensors tensors;
    for (const auto& each : arch::kept_while_generating(architecture, layer, shape.rows, positions)) {
      Product product = {{each.in_fp32 ? 4 : last.compute_bytes, "bytes"}};
      for (const int64_t size : each.sizes) product.push_back({size, ""});
      tensors.push_back({what, kCache, std::move(product), component});
    }
    return tensors;
  };
  for (size_t layer = static_cast<size_t>(architecture.encoder_layers()); layer < architecture.layers.size(); ++layer) {
    for (Bytes& tensor : kept("cache of tokens so far", architecture.layers[layer], shape.positions, kOfAnswers)) {
      result.answers.push_back(std::move(tensor));
    }
  }
  if (architecture.encoder) {
    result.source_values = kept("keys and values of sources", architecture.layers.back(), shape.source_length,
                                memory::Component::kTemporaryBuffers);
  }
  return result;
}

}  // namespace fathom::plan
