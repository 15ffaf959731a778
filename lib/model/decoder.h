// The model of every family (arch/families.h) on LibTorch: a decoder, with or without an encoder, with or without LoRA
// adapters.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "arch/architecture.h"
#include "model/parameters.h"
#include "ops/documents.h"
#include "ops/head_loss.h"
#include "weights/folder.h"

namespace fathom::model {

// What the layers of a decoder keep of the tokens so far, for generation: of `length` tokens, of `capacity` at most.
struct KeyValueCache {
  KeyValueCache(const arch::Architecture& architecture, int64_t batch, int64_t most, at::Device device,
                at::ScalarType dtype);
  std::vector<LayerState> layers;
  int64_t capacity = 0;
  at::Tensor source_hidden_BS;
  at::Tensor ids_BS;  // of the positions in use, of a model that may have to turn them anew (LongRoPE)
  int64_t length = 0;
};

// What a pass reads, on the device.
struct Inputs {
  Inputs() = default;
  Inputs(at::Tensor ids, std::shared_ptr<const ops::Documents> its = nullptr)  // NOLINT(google-explicit-constructor)
      : ids_BS(std::move(ids)), documents(std::move(its)) {}

  at::Tensor ids_BS;                                // int64, of the decoder
  std::shared_ptr<const ops::Documents> documents;  // of one row, packed, none of which sees another; null: every row
                                                    // is one
  at::Tensor source_BS;                             // int64, of the encoder, for a model that has one
  at::Tensor source_hidden_BS;                      // bool: padding of the source; undefined: it has none
  at::Tensor real_BS;                               // FP32: 0 for padding, 1 for tokens, which alone count for what
                                                    // routers add to the loss; undefined: all do
};

class Decoder {
 public:
  // Allocates every parameter on the device, uninitialised, and claims them as weights. Nothing else is ever copied
  // whole.
  Decoder(const arch::Architecture& architecture, const ModelOptions& options);
  ~Decoder();
  Decoder(Decoder&&) noexcept = default;
  Decoder& operator=(Decoder&&) = delete;

  // Fills the base weights from a folder (model/base_parameters.h); adapters get PEFT's initialisation from
  // `seed` (A Kaiming-uniform with a = sqrt(5), B zero). Throws Error for a missing tensor, a wrong shape, or a
  // left-over one.
  void load(const weights::ModelFolder& folder, uint64_t seed);
  // Draws the base weights as transformers would (normal of initializer_range, norms one, biases zero), adapters as
  // above.
  void initialise(uint64_t seed);

  // Makes the tables of positions for sequences of `length` tokens now, instead of in the first pass that needs them:
  // what a run takes then does not depend on the order of its batches.
  void reserve_positions(int64_t length);

  // Returns logits_BSV in the type of the computation. Under autocast if the caller says so.
  at::Tensor forward(const Inputs& inputs);
  // The loss of the batch without its logits, an FP32 scalar: at most targets.chunk_rows of them are there at a time,
  // and the backward pass finds the gradients of the head ready.
  // router_share: of what routers add to it (ops/balance.h), while training.
  at::Tensor loss(const Inputs& inputs, ops::LossTargets targets, double router_share = 1);
  // What routers add in the pass of the last `loss`, before their share; undefined where they add nothing. Asked once.
  at::Tensor take_router_loss();
  // What a loss over sequences is made of (ops/token_logprobs.h): for each position the log-probability of its target,
  // [B, S] in FP32, 0 where that is kIgnoredTarget. targets_BS: int64, already shifted. chunk_rows: of logits at a
  // time.
  at::Tensor token_logprobs(const Inputs& inputs, const at::Tensor& targets_BS, int64_t chunk_rows);
  // The log-probability of each sequence, its targets' together, [B] in FP32. rows_N, targets_N, chunk_rows: as those
  // of ops::LossTargets. The gradients are multiplied by gradient_scale.
  at::Tensor sequence_logprobs(const Inputs& inputs, const at::Tensor& rows_N, const at::Tensor& targets_N,
                               int64_t chunk_rows, double gradient_scale = 1);
  // Logits again, of new tokens after those in the cache, which grows; no gradients. A source is given with the first
  // ones. Returns those of the last position, [B, V].
  at::Tensor forward(const Inputs& inputs, KeyValueCache& cache);
  // As if passes of one token each, whose values nobody wants, had filled the cache to `length` of its positions, if it
  // has fewer. They must not go beyond the positions of a LongRoPE's first training.
  static void leave_out(KeyValueCache& cache, int64_t length);

  const std::vector<Parameter>& parameters() const;  // in the order of arch::ParameterTable
  std::vector<Parameter> trained_parameters() const;
  const arch::Architecture& architecture() const;
  const ModelOptions& options() const;
  void set_training(bool training);  // dropout on or off

 private:
  struct HiddenStates {
    at::Tensor x_TD;     // after the last norm
    at::Tensor head_VD;  // what takes the head's gradient
  };
  at::Tensor logprobs(const Inputs& inputs, const at::Tensor& rows_N, const at::Tensor& targets_N, int64_t chunk_rows);
  HiddenStates hidden_states(const Inputs& inputs, std::shared_ptr<ops::Balance> balance = nullptr);

  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace fathom::model
