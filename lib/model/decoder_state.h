// What a decoder has and how its stacks run; for decoder.cpp and decoder_state.cpp alone.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "model/decoder.h"
#include "model/relative_bias.h"
#include "ops/norm.h"
#include "ops/recorded_segments.h"
#include "ops/rotary.h"
#include "ops/tied_embedding.h"

namespace fathom::model {

struct Decoder::State : std::enable_shared_from_this<Decoder::State> {
  State(const arch::Architecture& architecture_in, const ModelOptions& options_in);

  arch::Architecture architecture;
  ModelOptions options;
  ops::ModuleNames names;
  arch::ModelNames module_names;
  std::vector<ops::RotaryTable> rotary;  // for each of the architecture's rotaries()
  ModelParameters parameters;
  bool training = false;
  at::Tensor embedding_VD, positions_PD, head_VD;
  at::Tensor head_cast_VD;  // ops/autocast.h
  ops::NormWeights encoder_norm, last_norm_weights;
  double embedding_scale = 1;  // as the embedding's type holds it
  std::vector<DecoderLayer> layers;
  std::optional<RelativeBias> encoder_bias, decoder_bias;  // where positions are relative
  at::Tensor anchor;
  at::Tensor router_loss;  // of the last pass that made a loss
  std::map<at::ScalarType, std::map<int64_t, footprint::AttentionKernel>> kernels;
  std::unique_ptr<ops::RecordedSegments> recorded;  // where layers are

  bool draws() const {
    return architecture.dropout > 0 || (options.parameters.lora && options.parameters.lora->dropout > 0);
  }
  void order_codes();
  const std::map<int64_t, footprint::AttentionKernel>& kernels_of(at::ScalarType dtype);
  LayerContext context(int64_t rows, int64_t first, int64_t length);
  // Of the routers of a pass that makes a loss; null where they add nothing to it.
  std::shared_ptr<ops::Balance> balance(const Inputs& inputs) const;
  LayerContext packed_context(const std::shared_ptr<const ops::Documents>& documents);
  // Of units (model/units.h), where others keep their parameters.
  void before_unit(int64_t unit) const {
    if (options.units != nullptr) options.units->before(unit);
  }
  void after_unit(int64_t unit, const at::Tensor& made) const {
    if (options.units != nullptr) options.units->after(unit, made);
  }
  int64_t last_unit() const { return architecture.num_hidden_layers() + 1; }
  // The stream, and the head as its gradient's node knows it. positions_S: of each row's tokens; of the model that has
  // learned ones.
  ops::TiedEmbedding embed(const at::Tensor& ids_BS, const at::Tensor& positions_S = {}) const;
  // From `first` on, where the model has learned positions; else undefined.
  at::Tensor positions(int64_t first, int64_t length) const;
  // Layers [first, end), each checkpointed where that saves anything.
  at::Tensor run_stack(int64_t first, int64_t end, LayerInputs inputs, const LayerContext& context);
  // All layers of a decoder alone, on a stream of `rows` rows: recorded, where that is asked for and the pass trains.
  at::Tensor run_layers(int64_t rows, at::Tensor stream_TD, const LayerContext& context);
  // The new tokens; where LongRoPE turns those in the cache otherwise than before, these as well: the cache is empty
  // then.
  at::Tensor ids_to_read(const at::Tensor& ids_BS, KeyValueCache& cache) const;
  // What the encoder makes of its stream, [B * S, D].
  at::Tensor encode(at::Tensor stream_TD, const Inputs& inputs);
  at::Tensor norm(const at::Tensor& stream_TD, const ops::NormWeights& weights, const char* name) const;
  // What the head reads.
  at::Tensor last_norm(const at::Tensor& stream_TD) const;
  at::Tensor head(const at::Tensor& x_TD) const;
  ops::NormSettings norm_settings() const {
    return {architecture.norm_eps, architecture.norm_offset, architecture.centred_norms};
  }
  double dropout() const { return training ? architecture.dropout : 0; }
  double embedding_dropout() const { return training ? architecture.embedding_dropout : 0; }
  double inner_dropout() const { return training ? architecture.inner_dropout : 0; }
};

}  // namespace fathom::model
