// The keys of each family, with transformers 5's defaults where they are absent.
#include "arch/read_experts.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/bytes.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

// What a kind says where config.json is silent, and what it always has (configuration_*.py, modeling_*.py).
struct Kind {
  int64_t count, per_token;
  double aux_loss_coef = 0.001;
  int64_t width = 0;         // moe_intermediate_size; 0: intermediate_size is theirs
  int64_t shared_width = 0;  // 0: nothing is shared
  ExpertFiles files = ExpertFiles::kProjections;
  // A softmax over the chosen alone is that over all, divided by the sum of the chosen; false: norm_topk_prob says it.
  bool normalised = false, normalised_if_silent = false;
  bool in_some_layers = false;      // decoder_sparse_step, mlp_only_layers
  bool deepseeks_keys = false;      // n_routed_experts, n_shared_experts, first_k_dense_replace, n_group and others
  bool corrected_sigmoids = false;  // of these
  bool by_layer_types = false;      // of these, mlp_layer_types in the place of first_k_dense_replace
  int64_t groups = 1, open_groups = 1, first_dense = 1;
  double scale = 1;
  bool named_by_modules = false;  // as PEFT's transformers_weight_conversion.py has it
};

Kind kind_of(ExpertKeys keys) {
  switch (keys) {
    case ExpertKeys::kMixtral:
      return {.count = 8, .per_token = 2, .files = ExpertFiles::kMixtral, .normalised = true, .named_by_modules = true};
    case ExpertKeys::kGraniteMoe:
      return {.count = 8, .per_token = 2, .files = ExpertFiles::kStacked, .normalised = true};
    case ExpertKeys::kOlmoe:
      return {.count = 64, .per_token = 8, .aux_loss_coef = 0.01, .named_by_modules = true};
    case ExpertKeys::kQwen2Moe:
      return {.count = 60, .per_token = 4, .width = 1408, .shared_width = 5632, .in_some_layers = true};
    case ExpertKeys::kQwen35Moe:
      return {.count = 256,
              .per_token = 8,
              .width = 512,
              .shared_width = 512,
              .files = ExpertFiles::kWhole,
              .normalised = true};
    case ExpertKeys::kQwen3Next:
      return {.count = 512,
              .per_token = 10,
              .width = 512,
              .shared_width = 512,
              .normalised_if_silent = true,
              .in_some_layers = true,
              .named_by_modules = true};
    case ExpertKeys::kGlm4Moe:
      return {.count = 128,
              .per_token = 8,
              .width = 1408,
              .normalised_if_silent = true,
              .deepseeks_keys = true,
              .corrected_sigmoids = true,
              .named_by_modules = true};
    case ExpertKeys::kDeepseekV3:
      return {.count = 256,
              .per_token = 8,
              .width = 2048,
              .normalised_if_silent = true,
              .deepseeks_keys = true,
              .corrected_sigmoids = true,
              .groups = 8,
              .open_groups = 4,
              .first_dense = 3,
              .scale = 2.5,
              .named_by_modules = true};
    case ExpertKeys::kGlm4MoeLite:
      return {.count = 64,
              .per_token = 4,
              .width = 1536,
              .normalised_if_silent = true,
              .deepseeks_keys = true,
              .corrected_sigmoids = true,
              .by_layer_types = true,
              .scale = 1.8,
              .named_by_modules = true};
    case ExpertKeys::kMistral4:
      return {.count = 128,
              .per_token = 4,
              .width = 2048,
              .files = ExpertFiles::kWhole,
              .normalised_if_silent = true,
              .deepseeks_keys = true,
              .first_dense = 0};
    case ExpertKeys::kGptOss:
      return {.count = 128, .per_token = 4, .files = ExpertFiles::kTurned, .normalised = true};
    case ExpertKeys::kQwen3Moe:
    case ExpertKeys::kNone:
      break;
  }
  return {.count = 128, .per_token = 8, .width = 768, .in_some_layers = true, .named_by_modules = true};
}

// transformers takes either name for the other.
constexpr const char *kCount = "num_experts", *kLocalCount = "num_local_experts";
constexpr const char *kFirstDense = "first_k_dense_replace", *kLayerKinds = "mlp_layer_types",
                     *kRouted = "n_routed_experts", *kPerToken = "num_experts_per_tok";
constexpr const char *kSharedWidth = "shared_expert_intermediate_size", *kShared = "n_shared_experts";
constexpr const char *kExpertWidth = "moe_intermediate_size", *kNormalised = "norm_topk_prob";
constexpr const char *kGroups = "n_group", *kOpenGroups = "topk_group", *kScale = "routed_scaling_factor";

void refuse_experts(const ConfigJson& config) {
  for (const char* key : {kLocalCount, kCount}) {
    if (const Json* value = config.asked(key)) config.refuse(key, "not supported: " + value->dump().substr(0, 80));
  }
}

// Keys of routers that choose or weigh otherwise, and of experts beside the chosen ones where the family has none.
void refuse_other_routers(const ConfigJson& config, const Kind& kind) {
  std::vector<const char*> keys = {"scoring_func", "topk_method", "router_type", "num_shared_experts"};
  if (!kind.deepseeks_keys) keys.insert(keys.end(), {kGroups, kOpenGroups, kShared, kScale});
  if (kind.shared_width == 0) keys.push_back(kSharedWidth);
  for (const char* key : keys) {
    const Json* value = config.asked(key);
    if (value == nullptr || (kind.corrected_sigmoids && (*value == "sigmoid" || *value == "noaux_tc"))) continue;
    config.refuse(key, value->dump().substr(0, 80) + " asks for another router than the family's",
                  "take a model whose router is Mixtral's, Qwen's, OLMoE's, Granite MoE's, gpt-oss's, GLM-4.5's or "
                  "DeepSeek-V3's");
  }
  if (config.asked("router_jitter_noise") != nullptr) config.refuse("router_jitter_noise", "only 0 is supported");
  // 0 is no none: transformers would clip everything to it.
  if (config.find("clip_qkv") != nullptr) config.refuse("clip_qkv", "only null is supported");
}

// As DeepSeek-V3 has them: scores in groups, and a part of several experts' width beside them, without a gate.
void read_deepseeks(const ConfigJson& config, const Kind& kind, Experts& experts) {
  RouterScores& scores = experts.scores;
  scores.sigmoid = scores.corrected = kind.corrected_sigmoids;
  scores.groups = config.size(kGroups, kind.groups);
  scores.open_groups = config.size(kOpenGroups, kind.open_groups);
  scores.scale = config.number(kScale, kind.scale, 0);
  const int64_t of_group = experts.count / scores.groups;
  if (experts.count % scores.groups != 0) config.refuse(kGroups, "does not divide the number of experts");
  if (scores.open_groups > scores.groups) config.refuse(kOpenGroups, "is more than n_group");
  if (of_group < 2) config.refuse(kGroups, "a group needs two experts, by whose scores it is chosen");
  if (experts.per_token > scores.open_groups * of_group) {
    config.refuse(kPerToken, "is more than the experts of topk_group groups");
  }
  const int64_t width = config.size(kExpertWidth, kind.width);
  experts.shared_width = checked_multiply(width, config.size(kShared, 1), kShared);
  experts.shared_gated = false;
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

// Of so many layers those that mlp_layer_types calls dense.
std::set<int64_t> read_dense_by_types(const ConfigJson& config, const Json& types, int64_t all) {
  std::set<int64_t> dense;
  if (!types.is_array() || std::ssize(types) != all) {
    config.refuse(kLayerKinds, "expected \"dense\" or \"sparse\" for each of num_hidden_layers");
  }
  for (int64_t layer = 0; layer < all; ++layer) {
    const Json& type = types[static_cast<size_t>(layer)];
    if (type != "dense" && type != "sparse") {
      config.refuse(kLayerKinds, "expected \"dense\" or \"sparse\", got " + type.dump().substr(0, 80));
    }
    if (type == "dense") dense.insert(layer);
  }
  return dense;
}

// Of so many layers those that have none: as mlp_layer_types says, or mlp_only_layers and decoder_sparse_step, or the
// first ones.
std::set<int64_t> read_dense_layers(const ConfigJson& config, const Kind& kind, int64_t all) {
  if (const Json* types = config.find(kLayerKinds); types != nullptr && kind.by_layer_types) {
    return read_dense_by_types(config, *types, all);
  }
  std::set<int64_t> dense;
  const int64_t first = kind.deepseeks_keys ? config.integer(kFirstDense).value_or(kind.first_dense) : 0;
  if (first < 0) config.refuse(kFirstDense, "expected 0 or more");
  if (kind.by_layer_types && first != kind.first_dense) {
    config.refuse(kFirstDense, "is not read by transformers, which has one dense layer then; expected mlp_layer_types");
  }
  for (int64_t layer = 0; layer < std::min(first, all); ++layer) dense.insert(layer);
  if (!kind.in_some_layers) return dense;
  const int64_t every = config.size("decoder_sparse_step", 1);
  for (int64_t layer = 0; layer < all; ++layer) {
    if ((layer + 1) % every != 0) dense.insert(layer);
  }
  const Json* layers = config.asked("mlp_only_layers");
  if (layers == nullptr) return dense;
  if (!layers->is_array()) config.refuse("mlp_only_layers", "expected a list of layers");
  for (const Json& layer : *layers) dense.insert(config.as_integer("mlp_only_layers", layer));
  return dense;
}

}  // namespace

void read_experts(const ConfigJson& config, const Family& family, Architecture& architecture) {
  if (family.experts == ExpertKeys::kNone) return refuse_experts(config);
  const Kind kind = kind_of(family.experts);
  refuse_other_routers(config, kind);
  Experts experts;
  experts.count = kind.deepseeks_keys ? config.size(config.either(kRouted, kLocalCount), kind.count)
                                      : read_count(config, kind.count);
  experts.per_token = config.size(kPerToken, kind.per_token);
  if (experts.per_token > experts.count) {
    config.refuse(kPerToken, std::to_string(experts.per_token) + " is more than the " + std::to_string(experts.count) +
                                 " experts that there are");
  }
  const bool silent = config.find(kNormalised) == nullptr && !config.is_null(kNormalised);
  const bool said = silent ? kind.normalised_if_silent : config.flag(kNormalised);
  experts.normalised = kind.normalised || said;
  experts.files = kind.files;
  experts.named_by_modules = kind.named_by_modules;
  if (kind.shared_width > 0) experts.shared_width = config.size(kSharedWidth, kind.shared_width);
  if (family.experts == ExpertKeys::kGptOss) {
    experts.biased = true;
    experts.clamped = read_clamped_gate(config);
  }
  if (kind.deepseeks_keys) read_deepseeks(config, kind, experts);
  const std::set<int64_t> dense = read_dense_layers(config, kind, architecture.num_hidden_layers());
  for (int64_t number = 0; number < architecture.num_hidden_layers(); ++number) {
    if (dense.contains(number)) continue;
    FeedForward& feed_forward = architecture.layers[static_cast<size_t>(number)].feed_forward;
    if (kind.width > 0) feed_forward.width = config.size(kExpertWidth, kind.width);
    feed_forward.experts = experts;
  }
  if (architecture.experts() == nullptr || kind.deepseeks_keys) return;  // transformers adds no loss for these
  const double coefficient = config.number("router_aux_loss_coef", kind.aux_loss_coef, 0);
  if (config.flag("output_router_logits")) architecture.router_aux_loss_coef = coefficient;
}

}  // namespace fathom::arch
