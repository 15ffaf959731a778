// After PEFT's tuners_utils.py and transformers_weight_conversion.py.
#include "arch/adapter_targets.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "arch/parameter_table.h"
#include "arch/text_part.h"
#include "base/error.h"
#include "config/target_pattern.h"
#include "tokenizer/regex.h"

namespace fathom::arch {
namespace {

constexpr const char *kGateUp = "gate_up_proj", *kDown = "down_proj", *kRouterWeight = "gate.weight";

// In target_modules the names that mean experts or a router, and the parameters that they are now.
const std::map<std::string, std::string>& expert_targets() {
  static const std::map<std::string, std::string> targets = {
      {"gate", kRouterWeight}, {"gate_proj", kGateUp}, {"up_proj", kGateUp}, {"down_proj", kDown}};
  return targets;
}

// What else a family calls them.
const std::map<std::string, std::string>& other_names(ExpertFiles files) {
  static const std::map<std::string, std::string> none,
      mixtral = {{"w1", "gate_proj"}, {"w3", "up_proj"}, {"w2", "down_proj"}};
  return files == ExpertFiles::kMixtral ? mixtral : none;
}

bool ends_with_part(const std::string& name, const std::string& end) {
  return name == end || name.ends_with("." + end);
}

bool is_all(const std::vector<std::string>& targets) { return targets.size() == 1 && targets[0] == config::kAllLinear; }

// PEFT's re.fullmatch of target_modules that is one text.
class Pattern {
 public:
  explicit Pattern(const std::string& text) try : regex_("\\A(?:" + text + ")\\z", "target_modules"), text_(text) {
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  bool matches(const std::string& name) {
    std::vector<tokenizer::Piece> found;
    try {
      regex_.find_all(name, found, budget_);
    } catch (const Error&) {  // which says of a text what is wrong with the pattern
      refuse("takes too long on " + name, "write it so that a name matches in one way alone");
    }
    return !found.empty();
  }
  [[noreturn]] void refuse(const std::string& why, const std::string& remedy) const {
    throw UsageError("target_modules: '" + text_ + "' " + why, remedy);
  }

 private:
  tokenizer::Regex regex_;
  std::string text_;
  tokenizer::MatchBudget budget_{0};
};

// "q_proj, k_proj, "
std::string last_parts(const std::vector<std::string>& modules) {
  std::set<std::string> seen;
  std::string list;
  for (const std::string& module : modules) {
    if (seen.insert(last_part(module)).second) list += last_part(module) + ", ";
  }
  return list;
}

// PEFT's: queries and values, by what the family calls them. PEFT has none for what makes them of narrow rows.
std::vector<std::string> default_targets(const std::vector<std::string>& modules) {
  const auto has = [&](const char* last) {
    return std::any_of(modules.begin(), modules.end(), [&](const auto& module) { return last_part(module) == last; });
  };
  for (const char* fused : {"qkv_proj", "c_attn"}) {
    if (has(fused)) return {fused};
  }
  if (has("kv_b_proj")) return {has("q_b_proj") ? "q_b_proj" : "q_proj", "kv_b_proj"};
  return has("q") ? std::vector<std::string>{"q", "v"} : std::vector<std::string>{"q_proj", "v_proj"};
}

// All linear layers but those of the feed-forward part: what is left where the rest are parameters.
bool stays_linear(const ParameterSpec& spec, bool has_experts) {
  if (spec.role != Role::kProjection) return false;
  return !has_experts || !expert_targets().contains(last_part(spec.module()));
}

// Whether PEFT takes names of linear layers for what experts and routers are now.
bool had_linear_experts(const Architecture& architecture) {
  const Experts* experts = architecture.experts();
  return experts != nullptr && experts->named_by_modules;
}

}  // namespace

std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

std::set<std::string> adapted_modules(const std::vector<std::string>& modules,
                                      const std::vector<std::string>& targets) {
  if (const auto text = config::pattern_of(targets)) {
    Pattern pattern(*text);
    std::set<std::string> adapted;
    std::copy_if(modules.begin(), modules.end(), std::inserter(adapted, adapted.end()),
                 [&](const std::string& name) { return pattern.matches(name); });
    if (!adapted.empty()) return adapted;
    pattern.refuse(
        "matches the whole name of no linear layer that can be adapted",
        "their names are like " + (modules.empty() ? "" : modules.front()) + "; a list takes the ends of names");
  }
  const std::vector<std::string> wanted = targets.empty() ? default_targets(modules) : targets;
  const bool all = is_all(wanted);
  std::vector<bool> matched(wanted.size(), all);
  std::set<std::string> adapted;
  for (const std::string& name : modules) {
    bool matches = all;
    for (size_t index = 0; index < wanted.size(); ++index) {
      if (!ends_with_part(name, wanted[index])) continue;
      matches = matched[index] = true;
    }
    if (matches) adapted.insert(name);
  }
  for (size_t index = 0; index < wanted.size(); ++index) {
    if (matched[index]) continue;
    throw UsageError("target_modules: '" + wanted[index] + "' matches no linear layer that can be adapted",
                     "name " + last_parts(modules) + "or all-linear alone");
  }
  return adapted;
}

namespace {

// A pattern that matches what PEFT would adapt or refuse beside linear layers.
void refuse_others(const std::string& text, const std::vector<ParameterSpec>& specs, const Architecture& architecture) {
  Pattern pattern(text);
  std::vector<std::string> others;
  for (const ParameterSpec& spec : specs) {
    if (spec.role == Role::kProjection || spec.role == Role::kBias) continue;
    others.push_back(name_in_whole(architecture.text_part, spec.module()));
  }
  if (architecture.tie_word_embeddings) others.emplace_back("lm_head");
  for (const std::string& module : others) {
    if (!pattern.matches(module)) continue;
    pattern.refuse("matches " + module + " too, which gets no adapter here", "leave it out of the pattern");
  }
}

}  // namespace

AdapterTargets adapter_targets(const Architecture& architecture, const LoraOptions& lora) {
  AdapterTargets targets{lora.target_modules, {}};
  for (const std::string& name : lora.target_parameters) targets.parameters[name] = 1;
  if (!had_linear_experts(architecture)) return targets;
  if (const auto text = config::pattern_of(lora.target_modules)) {
    Pattern(*text).refuse("is a regular expression, and experts are no linear layers any more",
                          "list the names: q_proj, k_proj, gate_proj with up_proj, or all-linear alone");
  }
  const std::map<std::string, std::string>& known = expert_targets();
  std::set<std::string> named;
  if (is_all(lora.target_modules)) {
    for (const auto& [module, parameter] : known) named.insert(module);
  } else {
    const auto meant = [](const std::map<std::string, std::string>& names, const std::string& target) {
      return std::find_if(names.begin(), names.end(),
                          [&](const auto& each) { return ends_with_part(target, each.first); });
    };
    const std::map<std::string, std::string>& others = other_names(architecture.experts()->files);
    std::erase_if(targets.modules, [&](const std::string& target) {
      const auto one = meant(known, target), other = meant(others, target);
      if (one != known.end()) named.insert(one->first);
      if (other != others.end()) named.insert(other->second);
      return one != known.end() || other != others.end();
    });
  }
  for (const std::string& module : named) targets.parameters[known.at(module)] = 1;
  if (named.contains("gate_proj") != named.contains("up_proj")) {
    throw UsageError("target_modules names one of the gate and up projections of experts, which are one matrix",
                     "name both, or neither");
  }
  if (named.contains("gate_proj")) targets.parameters[kGateUp] = 2;
  return targets;
}

std::map<std::string, int64_t> adapter_ranks(const Architecture& architecture, const std::vector<ParameterSpec>& specs,
                                             const LoraOptions& lora) {
  const AdapterTargets targets = adapter_targets(architecture, lora);
  std::map<std::string, int64_t> ranks;
  std::vector<std::string> modules;
  // As PEFT finds it, whose patterns are of whole names.
  const auto name_of = [&](const ParameterSpec& spec) { return name_in_whole(architecture.text_part, spec.module()); };
  for (const ParameterSpec& spec : specs) {
    if (stays_linear(spec, had_linear_experts(architecture))) modules.push_back(name_of(spec));
  }
  if (const auto text = config::pattern_of(targets.modules)) refuse_others(*text, specs, architecture);
  // PEFT's own modules where nothing is named; none where parameters are.
  if (!targets.modules.empty() || targets.parameters.empty()) {
    const std::set<std::string> adapted = adapted_modules(modules, targets.modules);
    for (const ParameterSpec& spec : specs) {
      if (spec.role == Role::kProjection && adapted.contains(name_of(spec))) ranks[spec.name] = lora.r;
    }
  }
  for (const auto& [target, times] : targets.parameters) {
    bool matches = false;
    for (const ParameterSpec& spec : specs) {
      const bool is_parameter = spec.role == Role::kExperts || spec.role == Role::kRouter;
      if (!is_parameter || !ends_with_part(spec.name, target)) continue;
      matches = true;
      int64_t& rank = ranks[spec.name];
      rank = std::max(rank, times * lora.r);
    }
    if (matches) continue;
    throw UsageError("target_parameters: '" + target + "' matches no experts and no router",
                     "name mlp.experts.gate_up_proj, mlp.experts.down_proj or mlp.gate.weight of a model with experts");
  }
  if (!targets.parameters.empty() && lora.dropout > 0) {
    throw UsageError("lora_dropout cannot be: adapters of experts and routers are a part of the matrix itself",
                     "set lora_dropout: 0");
  }
  return ranks;
}

std::string adapter_module(const ParameterSpec& spec, const std::map<std::string, int64_t>& ranks) {
  const std::string module = spec.module();
  const bool twice =
      spec.role == Role::kExperts && spec.name.ends_with(kGateUp) && ranks.contains(module + "." + kDown);
  return twice ? module + ".base_layer" : module;
}

}  // namespace fathom::arch
