// The keys of each family, with transformers 5's defaults where they are absent.
#include "arch/read_experts.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/json_value.h"

namespace fathom::arch {
namespace {

// Of configuration_*.py.
struct Defaults {
  int64_t count, per_token;
  double aux_loss_coef;
  int64_t width = 0;         // moe_intermediate_size; 0: intermediate_size is theirs
  int64_t shared_width = 0;  // 0: nothing is shared
};

Defaults defaults_of(ExpertKeys keys) {
  switch (keys) {
    case ExpertKeys::kMixtral:
    case ExpertKeys::kGraniteMoe:
      return {8, 2, 0.001};
    case ExpertKeys::kOlmoe:
      return {64, 8, 0.01};
    case ExpertKeys::kQwen2Moe:
      return {60, 4, 0.001, 1408, 5632};
    case ExpertKeys::kQwen35Moe:
      return {256, 8, 0.001, 512, 512};
    case ExpertKeys::kGptOss:
      return {128, 4, 0.001};
    case ExpertKeys::kQwen3Moe:
    case ExpertKeys::kNone:
      break;
  }
  return {128, 8, 0.001, 768};
}

// transformers takes either name for the other.
constexpr const char *kCount = "num_experts", *kLocalCount = "num_local_experts";
constexpr const char* kSharedWidth = "shared_expert_intermediate_size";
constexpr const char* kExpertWidth = "moe_intermediate_size";

void refuse_experts(const ConfigJson& config) {
  for (const char* key : {kLocalCount, kCount}) {
    if (const Json* value = config.asked(key)) config.refuse(key, "not supported: " + value->dump().substr(0, 80));
  }
}

// Keys of routers that choose or weigh otherwise, and of experts beside the chosen ones where the family has none.
void refuse_other_routers(const ConfigJson& config, const Defaults& defaults) {
  for (const char* key : {"scoring_func", "topk_method", "router_type", "n_group", "topk_group", "n_shared_experts",
                          "num_shared_experts", kSharedWidth, "routed_scaling_factor"}) {
    const Json* value = config.asked(key);
    if (value == nullptr || (key == std::string_view(kSharedWidth) && defaults.shared_width > 0)) continue;
    config.refuse(key, value->dump().substr(0, 80) + " asks for another router than a softmax over all experts",
                  "take a model whose router is Mixtral's, Qwen3-MoE's, OLMoE's, Granite MoE's or gpt-oss's");
  }
  if (config.asked("router_jitter_noise") != nullptr) config.refuse("router_jitter_noise", "only 0 is supported");
  // 0 is no none: transformers would clip everything to it.
  if (config.find("clip_qkv") != nullptr) config.refuse("clip_qkv", "only null is supported");
}

int64_t read_count(const ConfigJson& config, int64_t fallback) {
  const int64_t count = config.size(config.find(kLocalCount) != nullptr ? kLocalCount : kCount, fallback);
  if (config.find(kCount) != nullptr && config.size(kCount) != count) {
    config.refuse(kCount, "differs from num_local_experts");
  }
  return count;
}

ClampedGate read_clamped_gate(const ConfigJson& config) {
  const ClampedGate usual;
  const ClampedGate gate = {config.number("swiglu_alpha", usual.slope, 0),
                            config.number("swiglu_limit", usual.limit, 0)};
  if (gate.limit == 0) config.refuse("swiglu_limit", "expected more than 0");
  return gate;
}

// Layers that have none, as mlp_only_layers lists them.
std::set<int64_t> read_dense_layers(const ConfigJson& config) {
  std::set<int64_t> dense;
  const Json* layers = config.asked("mlp_only_layers");
  if (layers == nullptr) return dense;
  if (!layers->is_array()) config.refuse("mlp_only_layers", "expected a list of layers");
  for (const Json& layer : *layers) dense.insert(config.as_integer("mlp_only_layers", layer));
  return dense;
}

}  // namespace

void read_experts(const ConfigJson& config, const Family& family, Architecture& architecture) {
  if (family.experts == ExpertKeys::kNone) return refuse_experts(config);
  const Defaults defaults = defaults_of(family.experts);
  refuse_other_routers(config, defaults);
  const bool some_layers = family.experts == ExpertKeys::kQwen3Moe || family.experts == ExpertKeys::kQwen2Moe;
  Experts experts;
  experts.count = read_count(config, defaults.count);
  const bool gpt_oss = family.experts == ExpertKeys::kGptOss;
  experts.per_token = config.size("num_experts_per_tok", defaults.per_token);
  if (experts.per_token > experts.count) {
    config.refuse("num_experts_per_tok", std::to_string(experts.per_token) + " is more than the " +
                                             std::to_string(experts.count) + " experts that there are");
  }
  // Granite's and gpt-oss's softmax over the chosen alone is that over all, divided by the sum of the chosen.
  const bool mixtral = family.experts == ExpertKeys::kMixtral, granite = family.experts == ExpertKeys::kGraniteMoe;
  const bool qwen35 = family.experts == ExpertKeys::kQwen35Moe;
  experts.normalised = mixtral || granite || qwen35 || gpt_oss || config.flag("norm_topk_prob");
  if (qwen35) experts.files = ExpertFiles::kWhole;
  if (defaults.shared_width > 0) experts.shared_width = config.size(kSharedWidth, defaults.shared_width);
  if (mixtral) experts.files = ExpertFiles::kMixtral;
  if (granite) experts.files = ExpertFiles::kStacked;
  if (gpt_oss) {
    experts.files = ExpertFiles::kTurned;
    experts.biased = true;
    experts.clamped = read_clamped_gate(config);
  }
  const int64_t every = some_layers ? config.size("decoder_sparse_step", 1) : 1;
  const std::set<int64_t> dense = some_layers ? read_dense_layers(config) : std::set<int64_t>();
  for (int64_t number = 0; number < architecture.num_hidden_layers(); ++number) {
    if ((number + 1) % every != 0 || dense.contains(number)) continue;
    FeedForward& feed_forward = architecture.layers[static_cast<size_t>(number)].feed_forward;
    if (defaults.width > 0) feed_forward.width = config.size(kExpertWidth, defaults.width);
    feed_forward.experts = experts;
  }
  if (architecture.experts() == nullptr) return;
  const double coefficient = config.number("router_aux_loss_coef", defaults.aux_loss_coef, 0);
  if (config.flag("output_router_logits")) architecture.router_aux_loss_coef = coefficient;
}

}  // namespace fathom::arch
