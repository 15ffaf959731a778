// What of a run decides which values other keys may have.
#include <algorithm>

#include "arch/attention_by_scores.h"
#include "tests/random/draw_keys.h"

namespace fathom::random {
namespace {

arch::Architecture architecture_of(const Draft& draft) {
  return arch::parse_architecture(draft.run.model, "config.json");
}

// Both sides of every projection, or its rows alone.
bool has_whole(const Draft& draft, int64_t numbers, bool both_sides) {
  const std::vector<arch::ParameterSpec> specs = arch::parameter_specs(architecture_of(draft));
  return std::all_of(specs.begin(), specs.end(), [&](const arch::ParameterSpec& spec) {
    if (spec.role != arch::Role::kProjection) return true;
    return spec.shape[1] % numbers == 0 && (!both_sides || spec.shape[0] % numbers == 0);
  });
}

}  // namespace

bool Draft::fits_int4() const { return has_whole(*this, 16, /*both_sides=*/false); }

bool Draft::multiplies_fp8() const {
  return multiplies_in_fp8 && !has_experts() && computed() == "bfloat16" && has_whole(*this, 16, /*both_sides=*/true);
}

std::string Draft::stored() const {
  if (!is("dtype", "null")) return run.value("dtype");
  if (!lora() || encodes()) return "float32";
  return run.weights.empty() ? run.model["dtype"].get<std::string>() : run.weights;
}

std::string Draft::computed() const {
  if (is("bf16", "true")) return "bfloat16";
  return is("fp16", "true") ? "float16" : stored();
}

bool Draft::attends_by_scores() const { return arch::attends_by_scores(architecture_of(*this), /*training=*/true); }

bool Draft::turns_long_texts_otherwise() const {
  return run.model.contains("rope_parameters") && run.model["rope_parameters"].value("rope_type", "") == "longrope";
}

}  // namespace fathom::random
