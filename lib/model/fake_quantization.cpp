// From the settings of a run to the names and shapes of learned steps.
#include "model/fake_quantization.h"

#include "base/bytes.h"
#include "model/quantized_base.h"

namespace fathom::model {
namespace {

constexpr std::string_view kWeight = ".weight", kInt8 = ".int8_log_steps", kInt4 = ".int4_log_steps";

}  // namespace

std::optional<quant::Scheme> fake_scheme(const ModelShape& shape, const config::RunConfig& run) {
  if (run.qat == config::Qat::kNone || shape.quantized) return std::nullopt;
  return run.qat == config::Qat::kInt8 ? quant::Scheme::kInt8 : int4_scheme(shape);
}

bool is_fake_quantized(const ParameterSpec& spec) { return spec.is_matrix() && spec.name.starts_with("model.layers."); }

std::string name_of_steps(quant::Scheme scheme, const std::string& weight) {
  return weight.substr(0, weight.size() - kWeight.size()).append(quant::is_int4(scheme) ? kInt4 : kInt8);
}

bool is_name_of_steps(std::string_view name) { return name.ends_with(kInt8) || name.ends_with(kInt4); }

std::vector<int64_t> shape_of_steps(quant::Scheme scheme, const ParameterSpec& spec) {
  const int64_t rows = spec.shape[0];
  return {rows, quant::layout_of(scheme, rows, spec.shape[1]).scales / rows};
}

int64_t step_count(const ModelShape& shape, const config::RunConfig& run) {
  const std::optional<quant::Scheme> scheme = fake_scheme(shape, run);
  int64_t count = 0;
  if (!scheme) return count;
  for (const ParameterSpec& spec : parameter_specs(shape)) {
    if (!is_fake_quantized(spec)) continue;
    count = checked_add(count, quant::layout_of(*scheme, spec.shape[0], spec.shape[1]).scales, "number of steps");
  }
  return count;
}

}  // namespace fathom::model
