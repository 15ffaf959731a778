// Rotary positions by kind, as transformers' modeling_rope_utils.py reads them.
#include "arch/read_rope.h"

#include <cmath>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>

#include "base/json_value.h"

namespace fathom::arch {
namespace {

constexpr const char* kWidthShare = "partial_rotary_factor";

// An object within config.json that holds the keys of one kind of positions.
class RopeJson {
 public:
  RopeJson(const ConfigJson& config, std::string path, const Json& rope)
      : config_(config), path_(std::move(path)), rope_(rope) {
    if (!rope.is_object()) config.refuse(path_, "expected an object, got " + rope.dump().substr(0, 80));
  }

  const ConfigJson& config() const { return config_; }
  std::string path(const char* name) const { return path_ + "." + name; }
  [[noreturn]] void refuse(const char* name, const std::string& why) const { config_.refuse(path(name), why); }
  const Json* find(const char* name) const {
    const auto found = rope_.find(name);
    return found == rope_.end() || found->is_null() ? nullptr : &*found;
  }
  double number(const char* name, double least, std::optional<double> fallback = std::nullopt) const {
    const Json* value = find(name);
    if (value == nullptr && !fallback) refuse(name, "is missing");
    return value == nullptr ? *fallback : config_.as_number(path(name), *value, least);
  }
  bool flag(const char* name, bool fallback) const {
    const Json* value = find(name);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) refuse(name, "expected true or false, got " + value->dump().substr(0, 80));
    return value->get<bool>();
  }
  // One for each pair.
  std::vector<double> factors(const char* name, int64_t count) const {
    const Json* value = find(name);
    if (value == nullptr) refuse(name, "is missing");
    if (!value->is_array() || std::ssize(*value) != count) {
      refuse(name, "expected a list of " + std::to_string(count) + " numbers, one for each pair that is turned");
    }
    std::vector<double> result;
    for (const Json& each : *value) result.push_back(config_.as_number(path(name), each, 1e-6));
    return result;
  }
  // A key beside rope_parameters comes first, as in transformers.
  int64_t original_positions(int64_t max_positions) const {
    int64_t positions = max_positions;
    if (const Json* value = find("original_max_position_embeddings")) {
      positions = config_.as_size(path("original_max_position_embeddings"), *value);
    }
    return config_.size("original_max_position_embeddings", positions);
  }

 private:
  const ConfigJson& config_;
  std::string path_;
  const Json& rope_;
};

Llama3Rope read_llama3(const RopeJson& rope, int64_t max_positions) {
  Llama3Rope scaling;
  scaling.factor = rope.number("factor", 1);
  scaling.low_frequency_factor = rope.number("low_freq_factor", 1e-6);
  scaling.high_frequency_factor = rope.number("high_freq_factor", 1e-6);
  if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
    rope.refuse("high_freq_factor", "is not above low_freq_factor");
  }
  scaling.original_positions = rope.original_positions(max_positions);
  return scaling;
}

// YaRN's correction of attention for a factor (its paper's section 3.4), weighted.
double temperature(double factor, double weight) { return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1; }

void read_yarn(const RopeJson& rope, int64_t max_positions, Rotary& rotary) {
  YarnRope scaling;
  scaling.original_positions = rope.original_positions(max_positions);
  const double share = static_cast<double>(max_positions) / static_cast<double>(scaling.original_positions);
  scaling.factor = rope.number("factor", 1, share);
  if (scaling.factor < 1) rope.refuse("factor", "is missing, and max_position_embeddings is below the original");
  scaling.fast_turns = rope.number("beta_fast", 1e-6, scaling.fast_turns);
  scaling.slow_turns = rope.number("beta_slow", 1e-6, scaling.slow_turns);
  if (scaling.fast_turns < scaling.slow_turns) rope.refuse("beta_fast", "is below beta_slow");
  if (rotary.theta <= 1) rope.refuse("rope_theta", "yarn needs more than 1");
  scaling.whole_pairs = rope.flag("truncate", true);
  rotary.scaling = scaling;
  const double mscale = rope.number("mscale", 0, 0), of_all = rope.number("mscale_all_dim", 0, 0);
  const double usual = mscale != 0 && of_all != 0
                           ? temperature(scaling.factor, mscale) / temperature(scaling.factor, of_all)
                           : temperature(scaling.factor, 1);
  rotary.magnitude = rope.number("attention_factor", 1e-6, usual);
}

// Of queries and keys both.
void read_correction(const RopeJson& rope, Rotary& rotary) {
  const double of_all = rope.number("mscale_all_dim", 0, 0);
  if (of_all != 0) rotary.query_scale = std::pow(temperature(rope.number("factor", 1), of_all), 2);
}

void read_longrope(const RopeJson& rope, int64_t max_positions, Rotary& rotary) {
  LongRope scaling;
  scaling.short_factors = rope.factors("short_factor", rotary.width / 2);
  scaling.long_factors = rope.factors("long_factor", rotary.width / 2);
  scaling.original_positions = rope.original_positions(max_positions);
  const auto original = static_cast<double>(scaling.original_positions);
  const double factor = rope.number("factor", 0, static_cast<double>(max_positions) / original);
  rotary.scaling = std::move(scaling);
  const double usual = factor <= 1 || original <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
  rotary.magnitude = rope.number("attention_factor", 1e-6, usual);
}

NtkRope read_ntk(const RopeJson& rope, int64_t width) {
  if (width < 4) rope.refuse("alpha", "needs heads of 4 numbers or more");
  return {rope.number("alpha", 1e-6)};
}

void read_scaling(const RopeJson& rope, const Family& family, int64_t max_positions, Rotary& rotary) {
  const char* type_key = rope.find("rope_type") != nullptr ? "rope_type" : "type";
  const Json* type = rope.find(type_key);
  rotary.scaling = std::monostate();
  rotary.magnitude = rotary.query_scale = 1;
  if (type == nullptr || *type == "default") return;
  if (family.rotary.corrects_scores) read_correction(rope, rotary);
  if (*type == "longrope" || (family.rotary.longrope_by_any_name && (*type == "su" || *type == "yarn"))) {
    read_longrope(rope, max_positions, rotary);
  } else if (*type == "linear") {
    rotary.scaling = LinearRope{rope.number("factor", 1)};
  } else if (*type == "llama3") {
    rotary.scaling = read_llama3(rope, max_positions);
  } else if (*type == "yarn") {
    read_yarn(rope, max_positions, rotary);
  } else if (*type == "dynamic" && family.rotary.dynamic_by_alpha) {
    rotary.scaling = read_ntk(rope, rotary.width);
  } else if (*type == "proportional" && family.rotary.proportional) {
    const double share = rope.number(kWidthShare, 0, 1), pairs = static_cast<double>(rotary.width) / 2;
    if (share > 1) rope.refuse(kWidthShare, "expected 1 at most");
    rotary.still_pairs = rotary.width / 2 - static_cast<int64_t>(share * pairs);
    if (rope.find("factor") != nullptr) rotary.scaling = LinearRope{rope.number("factor", 1)};
  } else {
    rope.refuse(type_key,
                type->dump().substr(0, 80) + " is not supported (default, linear, llama3, yarn and longrope are)");
  }
}

// key: of the share of each head that is turned.
int64_t width_of(const ConfigJson& config, const std::string& key, double share, const Family& family,
                 int64_t head_dim) {
  if (!family.rotary.width_share && share != 1) config.refuse(key, "only 1 is supported");
  return static_cast<int64_t>(static_cast<double>(head_dim) * share);
}

void check_width(const ConfigJson& config, int64_t head_dim, const Rotary& rotary) {
  if (rotary.width < 2 || rotary.width > head_dim || rotary.width % 2 != 0) {
    config.refuse(kWidthShare, "turns " + std::to_string(rotary.width) + " of the " + std::to_string(head_dim) +
                                   " numbers of a head, expected an even part");
  }
}

// Llama 4's growth of queries with their position.
void read_growth(const RopeJson& rope, int64_t max_positions, Rotary& rotary) {
  rotary.query_growth = rope.number("llama_4_scaling_beta", 0, 0);
  if (rotary.query_growth != 0) rotary.query_growth_positions = rope.original_positions(max_positions);
}

// One object into what is known so far; its rope_theta, if it has one.
std::optional<double> read_object(const RopeJson& rope, const Family& family, int64_t head_dim, int64_t max_positions,
                                  Rotary& rotary) {
  std::optional<double> theta;
  if (rope.find("rope_theta") != nullptr) theta = rotary.theta = rope.number("rope_theta", 1);
  if (rope.find(kWidthShare) != nullptr && !family.rotary.proportional) {
    rotary.width = width_of(rope.config(), rope.path(kWidthShare), rope.number(kWidthShare, 0), family, head_dim);
  }
  read_scaling(rope, family, max_positions, rotary);
  if (family.rotary.query_growth != 0) read_growth(rope, max_positions, rotary);
  return theta;
}

bool is_stretched_alike(const Rotary& one, const Rotary& other) {
  return one.scaling == other.scaling && one.magnitude == other.magnitude && one.query_scale == other.query_scale &&
         one.query_growth == other.query_growth;
}

// rope_parameters by type of layer.
RotaryOfLayers read_by_type(const ConfigJson& config, const Json& ropes, const Family& family, const HeadDims& heads,
                            int64_t max_positions, RotaryOfLayers rotaries) {
  if (!ropes.is_object() || !(ropes.contains("full_attention") || ropes.contains("sliding_attention"))) {
    config.refuse("rope_parameters", "expected an object with full_attention and sliding_attention");
  }
  for (const auto& [type, rotary, head_dim] : {std::tuple{"full_attention", &rotaries.full, heads.full},
                                               std::tuple{"sliding_attention", &rotaries.windowed, heads.windowed}}) {
    const auto found = ropes.find(type);
    if (found == ropes.end() || found->is_null()) continue;
    read_object(RopeJson(config, std::string("rope_parameters.") + type, *found), family, head_dim, max_positions,
                *rotary);
  }
  return rotaries;
}

}  // namespace

RotaryOfLayers read_rope(const ConfigJson& config, const Family& family, const HeadDims& heads, int64_t max_positions) {
  const FamilyRotary& its = family.rotary;
  Rotary usual;
  usual.interleaved = its.interleaved;
  const double share = config.number(kWidthShare, its.width_share.value_or(1), 0);
  usual.width = width_of(config, kWidthShare, share, family, heads.full);
  usual.theta = config.number("rope_theta", its.theta, 1);
  usual.scaling = std::visit([](const auto& scaling) { return RopeScaling(scaling); }, its.scaling);
  usual.query_growth = its.query_growth;
  if (const auto* yarn = std::get_if<YarnRope>(&its.scaling)) usual.query_growth_positions = yarn->original_positions;
  Rotary windowed = usual;
  windowed.width = width_of(config, kWidthShare, share, family, heads.windowed);
  if (its.sliding_theta) windowed.theta = config.number("rope_local_base_freq", *its.sliding_theta, 1);
  const Json* parameters = config.asked("rope_parameters");
  if (its.sliding_theta && parameters != nullptr) {
    return read_by_type(config, *parameters, family, heads, max_positions, {usual, windowed});
  }
  std::optional<double> theta;
  const Json* found = nullptr;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json* rope = config.asked(key);
    if (rope == nullptr) continue;
    Rotary read = usual;
    const auto said = read_object(RopeJson(config, key, *rope), family, heads.full, max_positions, read);
    if (found != nullptr && !is_stretched_alike(read, usual)) config.refuse(key, "differs from rope_parameters");
    if (theta && said && *theta != *said) {
      config.refuse(std::string(key) + ".rope_theta", "differs from rope_parameters.rope_theta");
    }
    found = rope;
    usual = read;
    if (said) theta = said;
  }
  if (theta && config.find("rope_theta") != nullptr && config.number("rope_theta", *theta, 1) != *theta) {
    config.refuse("rope_theta", "differs from rope_parameters.rope_theta");
  }
  check_width(config, heads.full, usual);
  return {usual, its.sliding_theta ? windowed : usual};
}

std::vector<bool> read_turned_layers(const ConfigJson& config, const Family& family, size_t layers) {
  std::vector<bool> turned(layers, true);
  const int64_t usual = family.rotary.unturned_every;
  if (usual == 0) return turned;
  const int64_t every = config.size("no_rope_layer_interval", usual);
  const Json* said = config.find("no_rope_layers");
  if (said != nullptr && (!said->is_array() || said->size() < layers)) {
    config.refuse("no_rope_layers", "expected a list of 1 (turned) or 0 for each of num_hidden_layers");
  }
  for (size_t layer = 0; layer < layers; ++layer) {
    if (said == nullptr) {
      turned[layer] = (static_cast<int64_t>(layer) + 1) % every != 0;
      continue;
    }
    const int64_t value = config.as_integer("no_rope_layers", (*said)[layer]);
    if (value != 0 && value != 1)
      config.refuse("no_rope_layers", "expected 1 (turned) or 0, got " + std::to_string(value));
    turned[layer] = value == 1;
  }
  return turned;
}

}  // namespace fathom::arch
