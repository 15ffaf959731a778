// The operators outside the layers, and which layers are alike.
#include "plan/step_operators.h"

#include <algorithm>
#include <string>
#include <utility>

#include "arch/precision.h"
#include "config/precision.h"
#include "footprint/elementwise.h"
#include "footprint/embedding.h"
#include "footprint/head_loss.h"
#include "plan/layer_operators.h"

namespace fathom::plan {

using arch::ParameterRow;
using arch::Role;

bool StepOperators::Kind::operator==(const Kind& other) const {
  const auto alike = [](const ParameterRow* x, const ParameterRow* y) {
    return x->trained == y->trained && x->codes == y->codes && x->spec.role == y->spec.role &&
           x->spec.shape == y->spec.shape;
  };
  return *spec == *other.spec && input_needs_gradient == other.input_needs_gradient &&
         source_needs_gradient == other.source_needs_gradient && ends_encoder == other.ends_encoder &&
         std::equal(rows.begin(), rows.end(), other.rows.begin(), other.rows.end(), alike);
}

StepOperators::StepOperators(const arch::Architecture& architecture, const config::RunConfig& run, const Target& target,
                             const arch::ParameterTable& parameters)
    : architecture_(architecture), run_(run), target_(target), parameters_(parameters) {
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
    kind.ends_encoder = layer + 1 == encoder_layers;
    kind.spec = &architecture.layers[layer];
    needs = kind.needs_gradients();
    const auto known = std::find(kinds_.begin(), kinds_.end(), kind);
    layers_.push_back(static_cast<size_t>(known - kinds_.begin()));
    if (known == kinds_.end()) kinds_.push_back(std::move(kind));
  }
}

footprint::StepSizes StepOperators::sizes_of(int64_t tokens, bool gradients) const {
  const arch::Precision precision = arch::precision_of(architecture_, run_);
  footprint::StepSizes step;
  step.tokens = tokens;
  step.stored_bytes = size_of(precision.stored);
  step.compute_bytes = size_of(precision.computed);
  step.adapter_bytes = config::autocast_dtype(run_) ? 2 : 4;
  step.rank = run_.lora_r;
  step.dropout = gradients && run_.lora_dropout > 0;
  step.cuda = target_.device == config::Device::kCuda;
  step.own_kernels = step.cuda && run_.cuda_kernels && precision.computed != DType::kF16;
  return step;
}

Operator StepOperators::encoder_norm(const footprint::StepSizes& source, bool gradients) const {
  const int64_t width = architecture_.hidden_size;
  Operator norm = {"the encoder's norm",
                   footprint::rms_norm_footprint(source, width),
                   gradients_of(others_, architecture_.names().encoder_norm),
                   {}};
  norm.footprint.kept.push_back({"what the encoder made", "read by the decoder's layers; lib/model/decoder_layer.cpp",
                                 source.wide(width, source.compute_bytes)});
  if (drops(gradients)) {
    for (const footprint::Bytes& mask : footprint::dropout_footprint(source, width).kept) {
      norm.footprint.kept.push_back(mask);
    }
  }
  return norm;
}

// What embeddings lose to dropout is told here: it is kept as long.
Operator StepOperators::last_norm(const footprint::StepSizes& step, const footprint::StepSizes& source,
                                  bool gradients) const {
  const int64_t width = architecture_.hidden_size;
  Operator norm = {"the last norm",
                   footprint::rms_norm_footprint(step, width),
                   gradients_of(others_, architecture_.names().norm),
                   {}};
  norm.takes_stream_gradient = true;
  for (const ParameterRow* row : others_) {
    if (row->trained && row->spec.role == Role::kRelativeBias) norm.gradients.push_back(gradient_of(*row));
  }
  if (!drops(gradients)) return norm;
  for (const footprint::StepSizes* each : {&step, &step, &source}) {
    for (const footprint::Bytes& mask : footprint::dropout_footprint(*each, width).kept) {
      norm.footprint.kept.push_back(mask);
    }
  }
  return norm;
}

BatchOperators StepOperators::of_batch(const schedule::BatchShape& shape, bool gradients) const {
  const footprint::StepSizes step = sizes_of(shape.rows * shape.length, gradients);
  const footprint::StepSizes source = sizes_of(shape.rows * shape.source_length, gradients);
  const int64_t width = architecture_.hidden_size;

  BatchOperators result;
  result.loss = {
      {"loss", "a number in FP32", {{4, "bytes"}}},
      {"gradient of the loss", footprint::kGradientSource, {{4, "bytes"}}, memory::Component::kTemporaryBuffers}};
  const auto stack = [&](const footprint::StepSizes& sizes) -> BatchOperators::Stack {
    return {{{"gradient of the residual stream", footprint::kGradientSource, sizes.wide(width, sizes.stored_bytes)}},
            {{"residual stream, kept by checkpoints",
              "a layer keeps its input and runs again (Chen et al. 2016, arXiv 1604.06174)",
              sizes.wide(width, sizes.stored_bytes)}}};
  };
  result.decoder = stack(step);
  if (architecture_.encoder) {
    result.encoder = stack(source);
    result.encoder_layers = architecture_.encoder_layers();
    result.encoded = {{"what the encoder made", "read by the decoder's layers; lib/model/decoder_layer.cpp",
                       source.wide(width, source.compute_bytes)}};
    result.decoder.stream_gradient.push_back(
        {"gradient of what the encoder made", footprint::kGradientSource, source.wide(width, source.compute_bytes)});
  }
  result.kinds.reserve(kinds_.size());
  for (const Kind& kind : kinds_) {
    const bool encodes = architecture_.encoder && !kind.spec->cross;
    result.kinds.push_back(
        layer_operators({architecture_, run_, target_, *kind.spec, kind.rows, shape, encodes ? source : step, source,
                         gradients, kind.input_needs_gradient, kind.source_needs_gradient}));
    if (kind.ends_encoder) result.kinds.back().push_back(encoder_norm(source, gradients));
  }
  result.layers = layers_;
  result.head_waits = architecture_.tie_word_embeddings;
  result.trains_embedding = parameters_.rows.front().trained;
  for (const size_t kind : layers_) result.needs_gradients.push_back(kinds_[kind].needs_gradients());
  if (architecture_.encoder && run_.gradient_checkpointing && gradients && result.needs_gradients.front()) {
    result.loss.push_back({"embedding of targets",
                           "one tensor with that of sources, which the encoder's first layer keeps to the end; "
                           "lib/model/decoder.cpp",
                           step.wide(width, step.stored_bytes)});
    result.loss.push_back({"biases by distance",
                           "of each stack, kept by its layers; lib/model/relative_bias.cpp",
                           {{2 * (shape.length + shape.source_length) - 2, "distances"},
                            {kinds_.front().spec->attention.heads, "heads"},
                            {4, "bytes"}}});
  }
  footprint::HeadSizes head = {architecture_.vocab_size, width, shape.targets, run_.loss_chunk_size};
  if (run_.loss_chunk_size == 0) head.rows = step.tokens;
  head.trained = gradients && parameters_.trains_head();
  result.last_norm = last_norm(step, source, gradients);
  head.input_needs_gradient = gradients && (result.needs_gradients.back() || !result.last_norm.gradients.empty());
  head.gradients = head.input_needs_gradient || head.trained;
  result.head = {"the loss", footprint::head_loss_footprint(step, head), {}, {}};
  const footprint::StepSizes both = sizes_of(step.tokens + source.tokens, gradients);
  result.embedding = {
      "the embedding",
      footprint::embedding_footprint(both, architecture_.vocab_size, width, architecture_.tie_word_embeddings),
      {},
      {}};
  for (const ParameterRow* row : others_) {
    if (!row->trained || !row->spec.has_row_per_token()) continue;
    const bool of_head = row->spec.role == Role::kHead || architecture_.tie_word_embeddings;
    (of_head ? result.head : result.embedding).gradients.push_back(gradient_of(*row));
  }
  return result;
}

}  // namespace fathom::plan
