// What the model of a run has: a row for each parameter, resolved once from what the model is and what the run asks.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "arch/architecture.h"
#include "base/dtype.h"
#include "config/run_config.h"
#include "quant/layout.h"

namespace fathom::arch {

struct LoraOptions {
  int64_t r = 8;
  double alpha = 8;
  double dropout = 0;
  // Suffixes of module names as PEFT matches them; empty: queries and values (q_proj and v_proj); {"all-linear"}: every
  // projection.
  std::vector<std::string> target_modules = {};
  bool rank_stabilised = false;  // scaled by alpha / sqrt(r) (Kalajdzievski 2023, arXiv 2312.03732)
  // Of the base, trained whole: modules whose names end so, as PEFT matches them: "norm" is each norm of each layer
  // too. A tied head is the embedding under another name.
  std::vector<std::string> modules_to_save = {};
  // Ends of the names of experts and routers (arch/adapter_targets.h).
  std::vector<std::string> target_parameters = {};
  // Of an adapter of this rank, whose alpha grows with it.
  double scaling(int64_t rank) const {
    const double times = static_cast<double>(rank) / static_cast<double>(r);
    const auto divisor = static_cast<double>(rank);
    return alpha * times / (rank_stabilised ? std::sqrt(divisor) : divisor);
  }
};

// What a run decides about its parameters.
struct ParameterSettings {
  DType dtype = DType::kF32;                      // of the base; adapters and step sizes are FP32
  std::optional<quant::Scheme> base_scheme = {};  // codes of frozen projections
  std::optional<quant::Scheme> fake_scheme = {};  // to which projections are rounded while they are trained
  std::optional<LoraOptions> lora = {};           // set: the base is frozen, but for its modules_to_save
};

struct ParameterRow {
  ParameterSpec spec;  // of step sizes and adapters too: PEFT's "model.layers.0.self_attn.q_proj.lora_A.weight"
  DType dtype = DType::kF32;
  std::optional<quant::Scheme> codes;  // that are stored in the place of the numbers
  bool trained = false;
  std::string adapter = {};  // the module of its adapter, "model.layers.0.self_attn.q_proj"; empty: it has none
  int64_t adapter_rank = 0;
  bool adapted() const { return !adapter.empty(); }
  bool decays() const { return spec.takes_decay(); }
  bool of_base() const;         // neither step sizes nor of an adapter
  int64_t code_bytes() const;   // with the scales; 0 without codes
  int64_t value_bytes() const;  // of the numbers; 0 with codes
};

struct ParameterTable {
  // The base in the order of parameter_specs, each projection before its step sizes; then the adapters in the order of
  // their projections, A before B.
  std::vector<ParameterRow> rows;

  // Sums of elements.
  int64_t count() const;
  int64_t trained_count() const;
  int64_t trained_base_count() const;
  int64_t constant_count() const;  // ParameterSpec::is_constant
  int64_t count_of(Role role) const;
  int64_t adapter_count() const { return count_of(Role::kAdapterA) + count_of(Role::kAdapterB); }
  int64_t coded_count() const;  // numbers that codes stand for

  bool trains(std::string_view name) const;  // false for a name that is in no row
  // Whether the gradient of the head is needed, be it the embedding's.
  bool trains_head() const;
};

// Throws UsageError for a target or a module to save that matches nothing, and for a module that is both.
ParameterTable parameter_table(const Architecture& architecture, const ParameterSettings& settings);

// "model.layers.0.mlp.up_proj.int4_log_steps" of "model.layers.0.mlp.up_proj.weight": the name under which the
// logarithms of its step sizes are trained and saved, in FP32.
std::string name_of_step_sizes(quant::Scheme scheme, const std::string& weight);
bool is_name_of_step_sizes(std::string_view name);

}  // namespace fathom::arch
