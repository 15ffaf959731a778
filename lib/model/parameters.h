// The parameters of a model: allocated, filled, and put together into layers.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "arch/architecture.h"
#include "arch/casts.h"
#include "arch/parameter_table.h"
#include "config/run_config.h"
#include "ledger/cuda.h"
#include "ledger/ledger.h"
#include "model/base_parameters.h"
#include "model/decoder_layer.h"
#include "model/units.h"
#include "weights/folder.h"

namespace fathom::model {

struct ModelOptions {
  at::Device device = at::kCPU;
  arch::ParameterSettings parameters;
  bool fake_activations = false;  // what fake-quantized projections read is rounded too, each token to INT8
  bool int8_activations = false;  // for use alone: products of an INT8 base by ops/linear/int8_linear.h
  bool fp8_products = false;      // of projections in FP8: ops/linear/fp8_linear.h
  config::Attention attention = config::Attention::kFlash;
  bool cuda_kernels = false;  // ops/cuda_kernels.h: for the whole process, from here on
  bool gradient_checkpointing = false;
  ledger::Ledger* ledger = nullptr;       // claims weights and marks recomputation; may be null
  ledger::CudaDevice* records = nullptr;  // set: it records the layers of training passes (ops/recorded_segments.h)
  UnitKeeper* units = nullptr;            // set: parameters are made without memory, which it gives them
  arch::Casts casts = {};                 // in a pass it gives memory to these instead of the parameters that have them
  std::optional<at::ScalarType> adapter_casts = {};  // set: copies of adapters in this type stay beside them, for
                                                     // passes under autocast to it
};

struct Parameter {
  std::string name;   // Hugging Face's; adapters as PEFT: "model.layers.0.self_attn.q_proj.lora_A.weight"; of a
                      // quantized matrix its codes, and with ".scales" behind it their scales; step sizes as
                      // arch/parameter_table.h names them
  at::Tensor tensor;  // a leaf; requires_grad as `trained`
  bool trained = true;
  bool decays = false;   // matrices decay, norms, biases and steps do not
  int64_t unit = 0;      // model/units.h
  at::Tensor cast = {};  // of ModelOptions::casts, without memory; undefined: none
};

class ModelParameters {
 public:
  // Allocates every parameter on the device, uninitialised, and claims them as weights; lets them go one by one where
  // others keep them.
  ModelParameters(const arch::Architecture& architecture, const ModelOptions& options);

  const std::vector<Parameter>& all() const { return all_; }  // in the order of arch::ParameterTable
  // Of the base. Throws std::out_of_range for a name that it does not have.
  const at::Tensor& tensor(const std::string& name) const { return base_[places_.at(name)].tensor; }
  const at::Tensor& cast(const std::string& name) const { return base_[places_.at(name)].cast; }    // or undefined
  ops::DeltaWeights delta_weights(const std::string& prefix, const arch::DeltaNames& names) const;  // likewise
  ops::NormWeights norm(const std::string& module) const;                                           // likewise
  // Its tensors are those that are here.
  DecoderLayer layer(const arch::Architecture& architecture, int64_t number) const;
  bool trains(int64_t layer) const { return layer_trains_[static_cast<size_t>(layer)]; }  // anything of it

  // Makes the copies of ModelOptions::adapter_casts anew, of adapters as they are now, by one operator.
  void cast_adapters();

  // As Decoder has them.
  void load(const arch::Architecture& architecture, const weights::ModelFolder& folder, uint64_t seed);
  void initialise(const arch::Architecture& architecture, uint64_t seed);

 private:
  at::Tensor add(const arch::ParameterRow& row, int64_t unit);
  void add_quantized(BaseParameter& parameter, quant::Scheme scheme, const ops::QuantTables& tables, int64_t unit);
  void add(Parameter parameter);
  void make_adapter_casts(const std::vector<std::string>& names);
  ops::Linear linear(const std::string& module) const;
  ExpertWeights experts(const std::string& prefix, const arch::LayerSpec& spec) const;
  std::optional<ops::LoraAdapter> adapter(const std::string& parameter) const;
  void initialise_adapters();

  ModelOptions options_;
  std::vector<Parameter> all_;
  std::vector<BaseParameter> base_;       // these are the first of all_, quantized matrices by their parts
  std::map<std::string, size_t> places_;  // of these, by name
  struct AdapterPlace {
    std::string module;
    int64_t rank = 0;
  };
  std::map<std::string, AdapterPlace> adapter_places_;          // by the name of what they adapt
  std::map<std::string, at::Tensor> adapters_, adapter_casts_;  // by the adapter's own names
  std::vector<at::Tensor> cast_from_, cast_to_;                 // what cast_adapters() copies
  std::vector<bool> layer_trains_;
};

}  // namespace fathom::model
