// After transformers 5's configuration_deepseek_v3.py.
#include "arch/read_latent.h"

#include <string>

#include "base/bytes.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

constexpr const char *kStill = "qk_nope_head_dim", *kTurned = "qk_rope_head_dim", *kValue = "v_head_dim",
                     *kQueryRank = "q_lora_rank", *kInterleaved = "rope_interleave";
constexpr const char* kStretch = "rope_parameters";
constexpr const char *kHeadDim = "head_dim", *kKeyHeads = "num_key_value_heads";

int64_t even_size(const ConfigJson& config, const char* key, int64_t usual) {
  const int64_t size = config.size(key, usual);
  if (size % 2 != 0) config.refuse(key, "expected an even number: positions turn pairs of neighbours");
  return size;
}

void refuse_unless(const ConfigJson& config, const char* key, int64_t expected) {
  if (config.find(key) == nullptr || config.size(key) == expected) return;
  config.refuse(key, "expected " + std::to_string(expected) + ", which follows from other keys, got " +
                         std::to_string(config.size(key)));
}

// Mistral 4 says of what share of a head the part is that is turned, which follows from the sizes.
void drop_share_of_head(Json& rope, int64_t turned, int64_t head_dim) {
  constexpr const char* kShare = "partial_rotary_factor";
  const auto share = rope.is_object() ? rope.find(kShare) : rope.end();
  const double expected = static_cast<double>(turned) / static_cast<double>(head_dim);
  if (share != rope.end() && *share == expected) rope.erase(share);
}

}  // namespace

Json latent_in_llamas_words(const ConfigJson& config, const Json& json, const Family& family) {
  const int64_t usual = family.latent->turned, turned = even_size(config, kTurned, usual);
  const int64_t head_dim = checked_add(even_size(config, kStill, family.head_dim - usual), turned, kStill);
  const bool of_mistral = family.experts == ExpertKeys::kMistral4;
  // transformers' classes have a head_dim of their own, which follows: what positions turn, of Mistral 4 all of a head.
  refuse_unless(config, kHeadDim, of_mistral ? head_dim : turned);
  const int64_t heads = config.size("num_attention_heads");
  refuse_unless(config, kKeyHeads, heads);
  const Json* interleaved = config.find(kInterleaved);
  if (config.is_null(kInterleaved) || (interleaved != nullptr && *interleaved != true)) {
    config.refuse(kInterleaved, "only true is supported");
  }
  Json words = json;
  words[kHeadDim] = head_dim;
  words[kKeyHeads] = heads;
  if (!of_mistral) return words;
  if (config.asked(kStretch) != nullptr) {
    drop_share_of_head(words[kStretch], turned, head_dim);
  } else if (config.asked("rope_scaling") == nullptr) {
    words[kStretch] = {{"rope_type", "yarn"},
                       {"rope_theta", 10000.0},
                       {"factor", 128.0},
                       {"original_max_position_embeddings", 8192},
                       {"mscale", 1.0},
                       {"mscale_all_dim", 1.0},
                       {"llama_4_scaling_beta", family.rotary.query_growth}};
  }
  return words;
}

LatentHeads read_latent(const ConfigJson& words, const Family& family) {
  LatentHeads latent = *family.latent;
  latent.query_rank = words.is_null(kQueryRank) ? 0 : words.size(kQueryRank, latent.query_rank);
  latent.rank = words.size("kv_lora_rank", latent.rank);
  latent.turned = words.size(kTurned, latent.turned);
  latent.value_dim = words.size(kValue, latent.value_dim);
  const int64_t head_dim = words.size(kHeadDim);
  if (latent.value_dim > head_dim) {
    words.refuse(kValue, "is more than the " + std::to_string(head_dim) + " numbers of a head of keys");
  }
  return latent;
}

}  // namespace fathom::arch
