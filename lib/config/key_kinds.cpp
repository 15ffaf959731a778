// Reads, writes and describes one value of each kind.
#include "config/key_kinds.h"

#include "base/dtype.h"
#include "base/path.h"
#include "config/target_pattern.h"
#include "config/text.h"

namespace fathom::config {
namespace {

// Stores what was read, or hands back why nothing was.
template <typename T, typename Member>
std::optional<Mismatch> store(RunConfig& run, Member member, Read<T> read) {
  if (Mismatch* mismatch = std::get_if<Mismatch>(&read)) return std::move(*mismatch);
  run.*member = std::get<T>(std::move(read));
  return std::nullopt;
}

// [a, "b c"]
std::string list_of(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "[" : ", ") + quote(text);
  return list + "]";
}

}  // namespace

Key flag(std::string_view name, bool RunConfig::*member, std::string_view meaning) {
  Key key = make_key(name, "true or false", member, meaning);
  key.set = [=](RunConfig& run, const Value& value) { return store(run, member, read_bool(value)); };
  key.get = [=](const RunConfig& run) { return run.*member ? "true" : "false"; };
  return key;
}

Key optional_flag(std::string_view name, std::optional<bool> RunConfig::*member, std::string_view unset,
                  std::string_view meaning) {
  Key key = make_key(name, "true or false", member, meaning, unset);
  key.set = [=](RunConfig& run, const Value& value) { return store(run, member, read_bool(value)); };
  key.get = [=](const RunConfig& run) { return !(run.*member) ? "null" : *(run.*member) ? "true" : "false"; };
  return key;
}

Key integer(std::string_view name, int64_t RunConfig::*member, Range range, std::string_view meaning) {
  Key key = make_key(name, "whole number, " + in_words(range), member, meaning);
  key.set = [=](RunConfig& run, const Value& value) { return store(run, member, read_integer(value, range)); };
  key.get = [=](const RunConfig& run) { return std::to_string(run.*member); };
  return key;
}

Key size(std::string_view name, int64_t RunConfig::*member, std::string_view unset, std::string_view meaning) {
  Key key = make_key(name, "size, as 24GiB", member, meaning, unset);
  key.set = [=](RunConfig& run, const Value& value) { return store(run, member, read_size(value)); };
  key.get = [=](const RunConfig& run) { return run.*member == 0 ? "null" : format_size(run.*member); };
  return key;
}

Key number(std::string_view name, double RunConfig::*member, Range range, std::string_view meaning) {
  Key key = make_key(name, "number, " + in_words(range), member, meaning);
  key.set = [=](RunConfig& run, const Value& value) { return store(run, member, read_number(value, range)); };
  key.get = [=](const RunConfig& run) { return format_number(run.*member); };
  return key;
}

Key text(std::string_view name, const std::string& type, std::string RunConfig::*member, std::string_view unset,
         std::string_view meaning) {
  Key key = make_key(name, type, member, meaning, unset);
  key.is_text = true;
  key.set = [=](RunConfig& run, const Value& value) {
    auto mismatch = store(run, member, read_text(value, "a " + type));
    run.*member = with_home(run.*member);
    return mismatch;
  };
  key.get = [=](const RunConfig& run) { return (run.*member).empty() ? "null" : quote(run.*member); };
  return key;
}

Key paths(std::string_view name, const std::string& type, std::vector<std::string> RunConfig::*member,
          std::string_view unset, std::string_view meaning) {
  Key key = make_key(name, type, member, meaning, unset);
  key.is_text = key.is_list = true;
  key.set = [=](RunConfig& run, const Value& value) {
    auto mismatch = store(run, member, read_paths(value, "a " + type));
    for (std::string& path : run.*member) path = with_home(path);
    return mismatch;
  };
  key.get = [=](const RunConfig& run) -> std::string {
    const std::vector<std::string>& all = run.*member;
    return all.empty() ? "null" : all.size() == 1 ? quote(all[0]) : list_of(all);
  };
  return key;
}

Key dtype_key() {
  Key key =
      make_key("dtype", "float32, bfloat16, float16", &RunConfig::dtype,
               "The type in which the weights are stored. bfloat16 with full training loses small updates without "
               "master_weights; float16 is for a frozen base alone.",
               "float32 for full training; for a frozen base the checkpoint's, or the 16-bit type of autocast "
               "where both have 16 bits");
  key.set = [](RunConfig& run, const Value& value) -> std::optional<Mismatch> {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (value.kind != Value::Kind::kScalar || value.text != dtype_name(type)) continue;
      run.dtype = type;
      return std::nullopt;
    }
    return Mismatch{"one of float32, bfloat16, float16", describe(value), ""};
  };
  key.get = [](const RunConfig& run) { return run.dtype ? std::string(dtype_name(*run.dtype)) : "null"; };
  return key;
}

Key modules_key() {
  Key key = make_key(
      "target_modules", "list of names, all-linear, or a regular expression", &RunConfig::target_modules,
      "The linear layers that get an adapter, by the last part of their names; all-linear leaves out the head. A text "
      "alone is a regular expression of whole names, as in PEFT: `.*layers.[0-3].*q_proj`.",
      "queries and values: q_proj and v_proj");
  key.set = [](RunConfig& run, const Value& value) {
    return store(run, &RunConfig::target_modules, read_modules(value));
  };
  key.get = [](const RunConfig& run) -> std::string {
    const auto& names = run.target_modules;
    if (names.empty()) return "null";
    if (names.size() == 1 && names[0] == kAllLinear) return names[0];
    const auto pattern = pattern_of(names);
    return pattern ? quote(*pattern) : list_of(names);
  };
  return key;
}

Key target_parameters_key() {
  Key key = make_key("target_parameters", "list of names", &RunConfig::target_parameters,
                     "Experts and routers that get an adapter, by the ends of their names: mlp.experts.gate_up_proj, "
                     "mlp.experts.down_proj, mlp.gate.weight. Without target_modules nothing else gets one.",
                     "none, but those that target_modules means (docs/models.md)");
  key.set = [](RunConfig& run, const Value& value) {
    return store(run, &RunConfig::target_parameters, read_names(value, "a list of parameter names"));
  };
  key.get = [](const RunConfig& run) {
    return run.target_parameters.empty() ? std::string("null") : list_of(run.target_parameters);
  };
  return key;
}

Key saved_modules_key() {
  Key key = make_key("modules_to_save", "list of names", &RunConfig::modules_to_save,
                     "Modules of the base that are trained whole beside the adapters, and saved with them, as PEFT "
                     "matches them, by the ends of their names: embed_tokens and lm_head (which teaches added tokens), "
                     "norm for every norm, projections without an adapter; of GPT-2 wte, wpe, lm_head, ln_1, ln_2, "
                     "ln_f; of T5 shared for embed_tokens. Tied embedding and head stay one matrix.",
                     "none");
  key.set = [](RunConfig& run, const Value& value) {
    return store(run, &RunConfig::modules_to_save, read_names(value, "a list of module names"));
  };
  key.get = [](const RunConfig& run) {
    return run.modules_to_save.empty() ? std::string("null") : list_of(run.modules_to_save);
  };
  return key;
}

}  // namespace fathom::config
