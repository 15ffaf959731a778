// Parameters as the table orders them, and layers by the names of their modules.
#include "model/parameters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "ops/scalar_type.h"

namespace fathom::model {
namespace {

void seed_generator(at::Device device, uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace

ModelParameters::ModelParameters(const arch::Architecture& architecture, const ModelOptions& options)
    : options_(options) {
  const arch::ParameterTable table = arch::parameter_table(architecture, options_.parameters);
  ops::QuantTables tables;
  if (options_.parameters.base_scheme)
    tables = ops::make_quant_tables(*options_.parameters.base_scheme, options_.device);
  layer_trains_.resize(architecture.layers.size());
  std::vector<std::string> read_cast;
  for (const arch::ParameterRow& row : table.rows) {
    if (row.trained && row.spec.layer != arch::ParameterSpec::kNoLayer) {
      layer_trains_[static_cast<size_t>(row.spec.layer)] = true;
    }
    const int64_t unit = arch::unit_of(row.spec, architecture);
    if (row.spec.role == arch::Role::kStepSizes) {
      base_.back().name_of_step_sizes = row.spec.name;
      base_.back().quantizer = ops::FakeQuantizer{*options_.parameters.fake_scheme, add(row, unit)};
    } else if (!row.of_base()) {
      adapters_[row.spec.name] = add(row, unit);
      if (options_.adapter_casts && arch::is_read_cast(row)) read_cast.push_back(row.spec.name);
    } else {
      places_[row.spec.name] = base_.size();
      if (row.adapted()) adapter_places_[row.spec.name] = {row.adapter, row.adapter_rank};
      BaseParameter& parameter = base_.emplace_back(BaseParameter{row.spec});
      if (row.codes) {
        add_quantized(parameter, *row.codes, tables, unit);
      } else {
        parameter.tensor = add(row, unit);
        parameter.cast = all_.back().cast;
      }
    }
  }
  make_adapter_casts(read_cast);
}

void ModelParameters::add(Parameter parameter) {
  if (options_.units != nullptr) {
    let_go(parameter.tensor);
  } else if (options_.ledger != nullptr) {
    options_.ledger->claim(parameter.tensor, memory::Component::kWeights, parameter.name);
  }
  all_.push_back(std::move(parameter));
}

at::Tensor ModelParameters::add(const arch::ParameterRow& row, int64_t unit) {
  at::Tensor tensor =
      at::empty(row.spec.shape, at::TensorOptions().device(options_.device).dtype(ops::scalar_type(row.dtype)));
  tensor.set_requires_grad(row.trained);
  add({row.spec.name, tensor, row.trained, row.decays(), unit});
  if (options_.casts.have(row)) {
    all_.back().cast = at::empty(row.spec.shape, tensor.options().dtype(ops::scalar_type(*options_.casts.type)));
    let_go(all_.back().cast);
  }
  return tensor;
}

// The A's of one part of a layer lie end to end, so that those of one input multiply as one
// (ops/linear/shared_input.h).
void ModelParameters::make_adapter_casts(const std::vector<std::string>& names) {
  struct Block {
    std::string name;
    std::vector<std::string> adapters;
    int64_t rows = 0;
  };
  std::vector<Block> blocks;
  std::map<std::string, size_t> places;  // of blocks
  for (const std::string& name : names) {
    const at::Tensor& adapter = adapters_.at(name);
    const size_t module_end = name.rfind(".lora_A.weight");
    std::string block = name;
    if (module_end != std::string::npos) {
      block = name.substr(0, name.rfind('.', module_end - 1)) + ".lora_A of " + std::to_string(adapter.size(1));
    }
    const auto [place, is_new] = places.emplace(std::move(block), blocks.size());
    if (is_new) blocks.push_back({place->first, {}});
    blocks[place->second].adapters.push_back(name);
    blocks[place->second].rows += adapter.size(0);
  }
  for (const Block& block : blocks) {
    const at::Tensor& first = adapters_.at(block.adapters.front());
    const at::Tensor casts = at::empty({block.rows, first.size(1)}, first.options().dtype(*options_.adapter_casts));
    if (options_.ledger != nullptr) {
      options_.ledger->claim(casts, memory::Component::kFunctionality, block.name + " in autocast's type");
    }
    int64_t row = 0;
    for (const std::string& name : block.adapters) {
      const at::Tensor& adapter = cast_from_.emplace_back(adapters_.at(name));
      adapter_casts_[name] = cast_to_.emplace_back(casts.narrow(0, row, adapter.size(0)));
      row += adapter.size(0);
    }
  }
}

void ModelParameters::add_quantized(BaseParameter& parameter, quant::Scheme scheme, const ops::QuantTables& tables,
                                    int64_t unit) {
  const std::vector<int64_t>& sizes = parameter.spec.shape;
  const ops::QuantizedMatrix matrix = ops::empty_quantized_matrix(scheme, sizes[0], sizes[1], options_.device, tables);
  const auto add_part = [&](const char* part, const at::Tensor& tensor) {
    if (tensor.defined()) add({parameter.spec.name + part, tensor, /*trained=*/false, /*decays=*/true, unit});
  };
  add_part("", matrix.codes);
  add_part(".scales", matrix.scales);
  add_part(".outer_scales", matrix.outer_scales);
  parameter.quantized = matrix;
}

ops::Linear ModelParameters::linear(const std::string& module) const {
  const BaseParameter& weight = base_[places_.at(module + ".weight")];
  const bool biased = places_.contains(module + ".bias");
  ops::Linear linear{weight.tensor, biased ? tensor(module + ".bias") : at::Tensor(), std::nullopt, weight.quantized};
  linear.quantizer = weight.quantizer;
  linear.cast_ND = weight.cast;
  linear.int8_activations = options_.int8_activations && weight.quantized;
  const bool in_fp8 =
      weight.quantized ? quant::is_fp8_of_rows(weight.quantized->scheme) : weight.tensor.requires_grad();
  linear.fp8_products = options_.fp8_products && in_fp8;
  linear.adapter = adapter(module + ".weight");
  return linear;
}

std::optional<ops::LoraAdapter> ModelParameters::adapter(const std::string& parameter) const {
  const auto found = adapter_places_.find(parameter);
  if (found == adapter_places_.end()) return std::nullopt;
  const arch::LoraOptions& lora = *options_.parameters.lora;
  ops::LoraAdapter adapter;
  const std::string a = found->second.module + ".lora_A.weight", b = found->second.module + ".lora_B.weight";
  adapter.a_RD = adapters_.at(a);
  adapter.b_NR = adapters_.at(b);
  if (adapter_casts_.contains(a)) {
    adapter.a_cast_RD = adapter_casts_.at(a);
    adapter.b_cast_NR = adapter_casts_.at(b);
  }
  adapter.scaling = lora.scaling(found->second.rank);
  adapter.dropout = lora.dropout;
  return adapter;
}

void ModelParameters::cast_adapters() {
  if (cast_to_.empty()) return;
  const at::NoGradGuard no_gradients;
  at::_foreach_copy_(cast_to_, cast_from_);
}

ExpertWeights ModelParameters::experts(const std::string& prefix, const arch::LayerSpec& spec) const {
  const arch::FeedForwardNames names = spec.names().feed_forward;
  const arch::Experts& experts = *spec.feed_forward.experts;
  const auto stack = [&](const char* which) {
    const std::string name = prefix + names.experts + which;
    const BaseParameter& matrices = base_[places_.at(name)];
    const at::Tensor biases = experts.biased ? tensor(name + "_bias") : at::Tensor();
    return ops::ExpertStack{matrices.tensor, matrices.quantized, adapter(name), matrices.cast, biases};
  };
  return {experts,
          names.router,
          names.experts,
          linear(prefix + names.router),
          {experts.count, stack(".gate_up_proj"), stack(".down_proj"), experts.clamped},
          experts.scores.corrected ? tensor(prefix + names.correction) : at::Tensor()};
}

void ModelParameters::initialise_adapters() {
  for (const Parameter& parameter : all_) {
    if (!adapters_.contains(parameter.name)) continue;
    if (options_.units != nullptr) options_.units->open(parameter.tensor);
    if (parameter.name.ends_with(".lora_B.weight")) {
      parameter.tensor.zero_();
      continue;
    }
    // Kaiming-uniform with a = sqrt(5): bound = sqrt(6 / ((1 + a^2) fan_in)) = 1 / sqrt(fan_in).
    const double bound = 1 / std::sqrt(static_cast<double>(parameter.tensor.size(1)));
    parameter.tensor.uniform_(-bound, bound);
  }
}

ops::NormWeights ModelParameters::norm(const std::string& module) const {
  const bool biased = places_.contains(module + ".bias");
  return {tensor(module + ".weight"), biased ? tensor(module + ".bias") : at::Tensor()};
}

ops::DeltaWeights ModelParameters::delta_weights(const std::string& prefix, const arch::DeltaNames& names) const {
  return {tensor(prefix + names.convolution + ".weight"), tensor(prefix + names.decay_rate),
          tensor(prefix + names.decay_bias)};
}

DecoderLayer ModelParameters::layer(const arch::Architecture& architecture, int64_t number) const {
  const std::string prefix = architecture.layer_prefix(number);
  DecoderLayer layer;
  layer.names = ops::ModuleNames(options_.ledger, prefix);
  layer.spec = architecture.layers[static_cast<size_t>(number)];
  layer.program = arch::layer_program(architecture, layer.spec);
  for (const arch::Step& step : layer.program.steps) {
    StepWeights& its = layer.weights.emplace_back();
    if (step.kind == arch::StepKind::kLinear) its.linear = linear(prefix + step.module);
    if (step.kind == arch::StepKind::kAttend && layer.spec.attention().sinks) {
      its.sinks_H = tensor(prefix + layer.spec.names().attention.sinks);
    }
    if (step.kind == arch::StepKind::kConvolve) its.taps_DJ = tensor(prefix + step.module + ".weight");
    if (step.kind == arch::StepKind::kDelta) its.delta = delta_weights(prefix, layer.spec.names().delta);
    if (step.kind == arch::StepKind::kGatedNorm) its.norm = norm(prefix + step.module);
    if (step.kind == arch::StepKind::kExperts) its.experts = experts(prefix, layer.spec);
    if (step.kind == arch::StepKind::kScaleStream) its.scalar = tensor(prefix + step.module);
    if (step.weighed && (step.kind == arch::StepKind::kNorm || step.kind == arch::StepKind::kRowNorm)) {
      its.norm = norm(prefix + step.module);
      layer.stored = its.norm.weight_D.scalar_type();
    }
  }
  return layer;
}

void ModelParameters::load(const arch::Architecture& architecture, const weights::ModelFolder& folder, uint64_t seed) {
  const at::NoGradGuard no_gradients;
  load_base(base_, architecture, folder, options_.units);
  seed_generator(options_.device, seed);
  initialise_adapters();
  if (options_.units != nullptr) options_.units->close();
}

void ModelParameters::initialise(const arch::Architecture& architecture, uint64_t seed) {
  const at::NoGradGuard no_gradients;
  seed_generator(options_.device, seed);
  initialise_base(base_, architecture, options_.units);
  initialise_adapters();
  if (options_.units != nullptr) options_.units->close();
}

}  // namespace fathom::model
