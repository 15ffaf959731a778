// The decoder of every family (arch/families.h) on LibTorch: grouped queries, rotary positions, SwiGLU; with or
// without LoRA adapters.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "arch/architecture.h"
#include "arch/parameter_table.h"
#include "config/run_config.h"
#include "ledger/ledger.h"
#include "ops/documents.h"
#include "ops/head_loss.h"
#include "weights/folder.h"

namespace fathom::model {

struct ModelOptions {
  at::Device device = at::kCPU;
  arch::ParameterSettings parameters;
  bool fake_activations = false;  // what fake-quantized projections read is rounded too, each token to INT8
  bool int8_activations = false;  // for use alone: products of an INT8 base by ops/int8_linear.h
  config::Attention attention = config::Attention::kFlash;
  bool cuda_kernels = false;  // ops/cuda_kernels.h: for the whole process, from here on
  bool gradient_checkpointing = false;
  ledger::Ledger* ledger = nullptr;  // claims weights and marks recomputation; may be null
};

struct Parameter {
  std::string name;   // Hugging Face's; adapters as PEFT: "model.layers.0.self_attn.q_proj.lora_A.weight"; of a
                      // quantized matrix its codes, and with ".scales" behind it their scales; step sizes as
                      // arch/parameter_table.h names them
  at::Tensor tensor;  // a leaf; requires_grad as `trained`
  bool trained = true;
  bool decays = false;  // matrices decay, norms, biases and steps do not
};

// Keys and values of the tokens so far, for generation: per layer [B, K, capacity, E], `length` of them in use.
struct KeyValueCache {
  KeyValueCache(const arch::Architecture& architecture, int64_t batch, int64_t capacity, at::Device device,
                at::ScalarType dtype);
  std::vector<at::Tensor> keys_BKSE, values_BKSE;
  int64_t length = 0;
};

class Decoder {
 public:
  // Allocates every parameter on the device, uninitialised, and claims them as weights. Nothing else is ever copied
  // whole.
  Decoder(const arch::Architecture& architecture, const ModelOptions& options);

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

  // ids_BS: int64 on the device. Returns logits_BSV in the type of the computation. Under autocast if the caller says
  // so. documents: of one row, packed, none of which sees another; null: every row is one.
  at::Tensor forward(const at::Tensor& ids_BS, const std::shared_ptr<const ops::Documents>& documents = nullptr);
  // The loss of the batch without its logits, an FP32 scalar: at most targets.chunk_rows of them are there at a time,
  // and the backward pass finds the gradients of the head ready.
  at::Tensor loss(const at::Tensor& ids_BS, const ops::LossTargets& targets,
                  const std::shared_ptr<const ops::Documents>& documents = nullptr);
  // What a loss over sequences is made of (ops/token_logprobs.h): for each position the log-probability of its target,
  // [B, S] in FP32, 0 where that is kIgnoredTarget. targets_BS: int64, already shifted. chunk_rows: of logits at a
  // time.
  at::Tensor token_logprobs(const at::Tensor& ids_BS, const at::Tensor& targets_BS, int64_t chunk_rows,
                            const std::shared_ptr<const ops::Documents>& documents = nullptr);
  // Logits again, of new tokens after those in the cache, which grows; no gradients. Returns those of the last
  // position, [B, V].
  at::Tensor forward(const at::Tensor& ids_BS, KeyValueCache& cache);

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
  HiddenStates hidden_states(const at::Tensor& ids_BS, const std::shared_ptr<const ops::Documents>& documents);

  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace fathom::model
