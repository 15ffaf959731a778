// Which matrices get an adapter, and of which rank, as PEFT 0.21 decides it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "arch/architecture.h"

namespace fathom::arch {

struct LoraOptions;

// What PEFT calls gate and up projections of experts as one matrix, where its rank is that of both.
inline constexpr const char* kFusedPattern = R"(.*\.gate_up_proj)";

// What of target_modules names linear layers, and parameters with how many ranks of the adapter each has.
struct AdapterTargets {
  std::vector<std::string> modules;
  std::map<std::string, int64_t> parameters;
};
// A module that became a parameter is no module any more, not even in layers without experts, which have it.
AdapterTargets adapter_targets(const Architecture& architecture, const LoraOptions& lora);

// Of a module's name: "q_proj".
std::string last_part(const std::string& module);

// Those of the linear layers, by their names, that get an adapter: target_modules means nothing but this, to whichever
// command. Throws UsageError for a target that matches none.
std::set<std::string> adapted_modules(const std::vector<std::string>& modules, const std::vector<std::string>& targets);

// The ranks of the matrices that get an adapter, by the names of their parameters. Experts and routers, which
// transformers 5 holds as parameters without a linear layer, are named by target_parameters, or in target_modules by
// what their linear layers were called: then gate and up projections, which are one matrix now, have a rank of both.
// Throws UsageError for a target that matches none.
std::map<std::string, int64_t> adapter_ranks(const Architecture& architecture, const std::vector<ParameterSpec>& specs,
                                             const LoraOptions& lora);

// "model.layers.0.self_attn.q_proj", to which PEFT adds ".lora_A.weight". ranks: as above; where both matrices of a
// layer's experts have an adapter, PEFT wraps the first one twice.
std::string adapter_module(const ParameterSpec& spec, const std::map<std::string, int64_t>& ranks);

}  // namespace fathom::arch
