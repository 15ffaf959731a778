// Matches names of modules by their ends.
#include "model/saved_parameters.h"

#include "base/bytes.h"
#include "base/error.h"

namespace fathom::model {
namespace {

std::string module_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

[[noreturn]] void refuse_unknown(const std::string& name) {
  throw UsageError("modules_to_save: '" + name + "' matches no module with weights of its own",
                   "name embed_tokens, lm_head, norm (all norms), input_layernorm, post_attention_layernorm, q_norm, "
                   "k_norm, or a projection without an adapter");
}

}  // namespace

std::set<std::string> saved_parameters(const ModelShape& shape, const std::vector<std::string>& modules,
                                       const std::vector<std::string>& targets) {
  std::set<std::string> saved;
  if (modules.empty()) return saved;
  std::set<std::string> adapted;
  for (std::string& module : adapted_modules(shape, targets)) adapted.insert(std::move(module));
  const std::vector<ParameterSpec> specs = parameter_specs(shape);
  for (const std::string& name : modules) {
    bool matches = false;
    const auto match = [&](const std::string& module, const std::string& parameter) {
      if (name.empty() || !module.ends_with(name)) return;
      if (adapted.contains(module)) {
        throw UsageError("modules_to_save: '" + name + "' matches " + module + ", which gets an adapter",
                         "take it out of modules_to_save or of target_modules");
      }
      matches = true;
      saved.insert(parameter);
    };
    for (const ParameterSpec& spec : specs) match(module_of(spec.name), spec.name);
    if (shape.tie_word_embeddings) match("lm_head", "model.embed_tokens.weight");
    if (!matches) refuse_unknown(name);
  }
  return saved;
}

std::set<std::string> trained_base(const ModelShape& shape, const config::RunConfig& run) {
  if (run.method == config::Method::kLora) return saved_parameters(shape, run.modules_to_save, run.target_modules);
  std::set<std::string> all;
  for (const ParameterSpec& spec : parameter_specs(shape)) all.insert(spec.name);
  return all;
}

int64_t trained_base_count(const ModelShape& shape, const config::RunConfig& run) {
  const std::set<std::string> trained = trained_base(shape, run);
  int64_t count = 0;
  for (const ParameterSpec& spec : parameter_specs(shape)) {
    if (trained.contains(spec.name)) count = checked_add(count, spec.elements(), "number of parameters");
  }
  return count;
}

}  // namespace fathom::model
