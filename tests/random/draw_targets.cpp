// How modules that are adapted, or trained beside adapters, are drawn.
#include "tests/random/draw_targets.h"

#include <regex>

#include "tests/random/draw_model.h"

namespace fathom::random {

using Words = std::vector<std::string>;
using Value = std::optional<std::string>;

namespace {

std::string list_of(const Words& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "[" : ", ") + word;
  return list + "]";
}

Words some_of(const Words& words, double share, Dice& dice) {
  Words some;
  for (const std::string& word : words) {
    if (dice.chance(share)) some.push_back(word);
  }
  return some;
}

// A regular expression of whole names, as PEFT has it: '.*\.(q_proj|v_proj)'.
std::string pattern_of(const Words& words) {
  std::string pattern = "'.*\\.(";
  for (const std::string& word : words) pattern += (&word == &words.front() ? "" : "|") + word;
  return pattern + ")'";
}

// Of experts the gate and up projections, which are one matrix, are named together, and nothing is dropped.
Value draw_expert_targets(Draft& draft) {
  const bool drops = !draft.is("lora_dropout", "0") && !draft.rarely();
  if (!drops && draft.dice.chance(0.3)) return "all-linear";
  Words linear = projections_of(draft.run.model);
  std::erase_if(linear,
                [](const std::string& name) { return std::regex_match(name, std::regex("(gate|up|down)_proj")); });
  Words some = some_of(linear, 0.4, draft.dice);
  if (draft.has_stacked_experts()) return some.empty() ? std::nullopt : Value(list_of(some));
  if (!drops && draft.dice.chance(0.4)) some.insert(some.end(), {"gate_proj", "up_proj"});
  if (!drops && draft.dice.chance(0.3)) some.emplace_back("down_proj");
  return some.empty() ? std::nullopt : Value(list_of(some));
}

}  // namespace

Value draw_target_parameters(Draft& draft) {
  if (!draft.lora() || (!draft.has_experts() && !draft.rarely())) return std::nullopt;
  if (draft.dice.chance(0.6) || (!draft.is("lora_dropout", "0") && !draft.rarely())) return std::nullopt;
  const Words some = some_of(
      {"experts.gate_up_proj", "experts.down_proj", draft.has_stacked_experts() ? "router.weight" : "gate.weight"}, 0.5,
      draft.dice);
  return some.empty() ? std::nullopt : Value(list_of(some));
}

Value draw_target_modules(Draft& draft) {
  if (!draft.lora() || draft.dice.chance(0.35)) return std::nullopt;
  if (draft.has_experts()) return draw_expert_targets(draft);
  if (draft.dice.chance(0.4)) return "all-linear";
  const Words some = some_of(projections_of(draft.run.model), 0.4, draft.dice);
  if (some.empty()) return std::nullopt;
  return draft.dice.chance(0.2) ? pattern_of(some) : list_of(some);
}

// Modules without an adapter; of codes none can be trained.
Value draw_modules_to_save(Draft& draft) {
  if (!draft.lora() || draft.dice.chance(0.65)) return std::nullopt;
  const bool in_fp16 = draft.stored() == "float16" || (draft.is("dtype", "null") && draft.is("fp16", "true"));
  if (in_fp16 && !draft.rarely()) return std::nullopt;
  Words some = some_of(draft.encodes()   ? Words{"shared", "lm_head", "layer_norm", "final_layer_norm",
                                               "SelfAttention.relative_attention_bias"}
                       : draft.is_gpt2() ? Words{"wte", "wpe", "ln_1", "ln_2", "ln_f", "lm_head"}
                                         : Words{"embed_tokens", "lm_head", "norm"},
                       0.5, draft.dice);
  const std::string& targets = draft.run.value("target_modules");
  const bool may_projections = !draft.quantized() && !draft.has_experts() && !draft.is_gpt2();
  if (may_projections && targets != "all-linear") {
    const std::string adapted =
        targets == "null" ? (draft.encodes() ? "[q, v]" : "[q_proj, v_proj, qkv_proj]") : targets;
    for (const std::string& name : some_of(projections_of(draft.run.model), 0.15, draft.dice)) {
      if (!std::regex_search(adapted, std::regex("\\b" + name + "\\b"))) some.push_back(name);
    }
  }
  return some.empty() ? std::nullopt : Value(list_of(some));
}

}  // namespace fathom::random
