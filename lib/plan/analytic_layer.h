// What one decoder layer keeps for its backward pass, tensor by tensor, and what its backward pass takes for a while.
// No torch header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "model/shape.h"
#include "plan/analytic_instant.h"

namespace fathom::plan {

// Sizes of elements and the switches that decide what is kept. Letters are those of base/shapes.h.
struct LayerSettings {
  LayerSettings(const model::ModelShape& shape, const config::RunConfig& run, const Target& target);

  const model::ModelShape& shape;
  const config::RunConfig& run;
  bool cuda = false;
  bool math = false, flash = false;  // the attention kernel; neither: memory-efficient
  bool lora = false;
  bool checkpointing = false;
  int64_t stored_bytes = 4;                   // an element of base weights and of the stream from layer to layer
  int64_t compute_bytes = 4;                  // of matrix products: 2 under autocast
  int64_t adapter_bytes = 4;                  // in which adapters compute
  bool casts_base = false;                    // autocast copies the base weights
  bool adapts(const char* projection) const;  // "q_proj"
  int64_t queries() const { return shape.num_attention_heads * shape.head_dim; }  // H * E
  int64_t keys() const { return shape.num_key_value_heads * shape.head_dim; }     // K * E

 private:
  std::vector<std::string> adapted_;
};

// The parts of a layer in the order of its backward pass. What a part keeps is released when its own backward is over.
enum class Part { kDown, kGate, kGateUp, kSecondNorm, kOutput, kAttention, kQkv, kFirstNorm };

struct Kept {
  ledger::Component component = ledger::Component::kActivations;  // or kFunctionality: autocast's copy of a weight
  std::string what;
  Part part = Part::kFirstNorm;
  Product product;             // of one layer
  bool in_first_layer = true;  // false: nothing before the first adapter needs it
  bool cached = false;         // by autocast, until the forward pass is over: the copy of a trained weight
};
// In the order of the forward pass.
std::vector<Kept> kept_by_layer(const LayerSettings& settings, const train::BatchShape& batch);

struct Gradient {
  std::string what;
  Part part = Part::kFirstNorm;  // whose backward makes it
  Product product;               // of one layer
};
std::vector<Gradient> gradients_of_layer(const LayerSettings& settings);

struct Temporary {
  std::string what;
  Product product;
};
// Alive at the fullest instant of the backward pass of a part (kDown, kGate or kAttention), besides what is kept and
// the gradients of weights.
std::vector<Temporary> temporaries_of(Part part, const LayerSettings& settings, const train::BatchShape& batch);

}  // namespace fathom::plan
