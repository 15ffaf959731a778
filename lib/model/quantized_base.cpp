// From the settings of a run to the storage of its frozen base.
#include "model/quantized_base.h"

#include "base/bytes.h"
#include "model/saved_parameters.h"

namespace fathom::model {

std::optional<quant::Scheme> base_scheme(const config::RunConfig& run) {
  if (run.method != config::Method::kLora) return std::nullopt;
  if (run.load_in_8bit) return quant::Scheme::kInt8;
  if (run.load_in_fp8) return quant::Scheme::kFp8;
  if (!run.load_in_4bit) return std::nullopt;
  return run.bnb_4bit_use_double_quant ? quant::Scheme::kNf4DoubleQuant : quant::Scheme::kNf4;
}

bool is_quantizable(const ParameterSpec& spec, bool trained) {
  return !trained && spec.is_matrix() && spec.name.starts_with("model.layers.");
}

BaseBytes base_bytes(const ModelShape& shape, const config::RunConfig& run, DType stored) {
  const std::optional<quant::Scheme> scheme = base_scheme(run);
  const std::set<std::string> trained = trained_base(shape, run);
  BaseBytes bytes;
  const auto add = [](int64_t& sum, int64_t more) { sum = checked_add(sum, more, "bytes of the weights"); };
  for (const ParameterSpec& spec : parameter_specs(shape)) {
    if (!scheme || !is_quantizable(spec, trained.contains(spec.name))) {
      add(bytes.others, checked_multiply(spec.elements(), size_of(stored), spec.name));
      continue;
    }
    const quant::Layout layout = quant::layout_of(*scheme, spec.shape[0], spec.shape[1]);
    add(bytes.codes, layout.code_bytes);
    add(bytes.scales, layout.scale_bytes);
    add(bytes.values, spec.elements());
  }
  return bytes;
}

}  // namespace fathom::model
