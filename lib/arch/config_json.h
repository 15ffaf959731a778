// A config.json that is not trusted: values by key, of the right kind and in range, or an Error that names file and
// key.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace fathom::arch {

// Keys that several kinds of config are read by.
inline constexpr const char *kLayerTypes = "layer_types", *kTied = "tie_word_embeddings",
                            *kQuantization = "quantization_config";

class ConfigJson {
 public:
  static constexpr int64_t kMaxSize = int64_t{1} << 31;  // of any one dimension
  static constexpr int64_t kMaxLayers = 10'000;          // of a stack

  // Keys that ask for a part of a model, or for what is done besides, and for nothing where they say none: where they
  // are absent, null, false, 0, "", [] or {}.
  static constexpr std::array kKeysOfParts{"is_encoder_decoder",
                                           "use_bidirectional_attention",
                                           "attention_dropout",
                                           "resid_pdrop",
                                           "embd_pdrop",
                                           "use_qk_norm",
                                           "attn_logit_softcapping",
                                           "final_logit_softcapping",
                                           "use_sliding_window",
                                           "sliding_window",
                                           "num_experts",
                                           "num_local_experts",
                                           "scoring_func",
                                           "topk_method",
                                           "router_type",
                                           "n_group",
                                           "topk_group",
                                           "n_shared_experts",
                                           "num_shared_experts",
                                           "shared_expert_intermediate_size",
                                           "routed_scaling_factor",
                                           "router_jitter_noise",
                                           "mlp_only_layers",
                                           "rope_parameters",
                                           "rope_scaling",
                                           kQuantization,
                                           "add_cross_attention",
                                           "scale_attn_by_inverse_layer_idx"};

  // config must outlive this. Throws Error unless it is an object.
  ConfigJson(const Json& config, std::string_view origin);

  [[noreturn]] void refuse(const std::string& key, const std::string& why, const std::string& remedy = "") const;

  // Null if the key is absent or null; `is_null` tells the two apart.
  const Json* find(const std::string& key) const;
  bool is_null(const std::string& key) const;
  // Of one of kKeysOfParts what it asks for; null where it says none.
  const Json* asked(std::string_view key) const;
  // Of a key that transformers' attribute_map gives another name, the name that is there. Throws where both are, and
  // differ.
  std::string either(const std::string& key, const std::string& other_name) const;

  // Absent or null: nothing.
  std::optional<int64_t> integer(const std::string& key) const;
  // 1 to kMaxSize. Throws where there is neither the key nor a fallback.
  int64_t size(const std::string& key, std::optional<int64_t> fallback = std::nullopt) const;
  // Likewise 1 to kMaxLayers.
  int64_t layers(const std::string& key, std::optional<int64_t> fallback = std::nullopt) const;
  // Finite and at least `least`.
  double number(const std::string& key, double fallback, double least) const;
  // Of dropout, below 1, which all of these keys must say.
  double rate(std::initializer_list<const char*> keys, double fallback) const;
  bool flag(const std::string& key) const;  // absent, or none as above: false
  // Whether layer_types calls each layer `other`, where it may also say full_attention; nothing where it is absent.
  std::optional<std::vector<bool>> layers_of_type(std::string_view other, size_t layers) const;

  // The same of a value within another; key: how to name it.
  int64_t as_integer(const std::string& key, const Json& value) const;
  int64_t as_size(const std::string& key, const Json& value) const;
  double as_number(const std::string& key, const Json& value, double least) const;

 private:
  const Json& config_;
  std::string origin_;
};

}  // namespace fathom::arch
