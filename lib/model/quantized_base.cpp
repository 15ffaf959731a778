// From the settings of a run to the storage of its frozen base.
#include "model/quantized_base.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "model/saved_parameters.h"

namespace fathom::model {

namespace {

std::optional<quant::Scheme> scheme_of_settings(const config::RunConfig& run) {
  if (run.method != config::Method::kLora) return std::nullopt;
  if (run.load_in_8bit) return quant::Scheme::kInt8;
  if (run.load_in_fp8) return quant::Scheme::kFp8;
  if (!run.load_in_4bit) return std::nullopt;
  return run.bnb_4bit_use_double_quant ? quant::Scheme::kNf4DoubleQuant : quant::Scheme::kNf4;
}

const char* key_of(quant::Scheme scheme) {
  if (scheme == quant::Scheme::kInt8) return "load_in_8bit";
  return scheme == quant::Scheme::kFp8 ? "load_in_fp8" : "load_in_4bit";
}

std::string stored_as(const ModelShape& shape) {
  return "the model's folder stores its projections in " + std::string(quant::name_of(shape.quantized->scheme));
}

}  // namespace

std::optional<quant::Scheme> base_scheme(const ModelShape& shape, const config::RunConfig& run) {
  const std::optional<quant::Scheme> wanted = scheme_of_settings(run);
  if (!shape.quantized) return wanted;
  if (wanted && *wanted != shape.quantized->scheme) {
    throw UsageError(std::string(key_of(*wanted)) + ": " + std::string(quant::name_of(*wanted)) + " is wanted, but " +
                         stored_as(shape),
                     std::string("remove ") + key_of(*wanted) + ", or name the folder before it was quantized");
  }
  return shape.quantized->scheme;
}

void refuse_training_codes(const ModelShape& shape, const config::RunConfig& run) {
  if (!shape.quantized) return;
  const std::string remedy = ", or name the folder before it was quantized";
  if (run.method != config::Method::kLora) {
    throw UsageError("method: full trains every weight, but " + stored_as(shape), "set method: lora" + remedy);
  }
  if (run.random_init) {
    throw UsageError("random_init: true draws every weight, but " + stored_as(shape), "remove random_init" + remedy);
  }
  if (run.qat != config::Qat::kNone) {
    throw UsageError("qat trains weights that are rounded, but " + stored_as(shape), "remove qat" + remedy);
  }
  for (const std::string& name : trained_base(shape, run)) {
    if (name.starts_with("model.layers.") && name.ends_with("_proj.weight")) {
      throw UsageError("modules_to_save trains " + name + ", but " + stored_as(shape),
                       "remove the module from modules_to_save" + remedy);
    }
  }
}

quant::Scheme int4_scheme(const ModelShape& shape) {
  const std::vector<ParameterSpec> specs = parameter_specs(shape);
  const auto first_odd_row = [&](quant::Scheme scheme) {
    return std::find_if(specs.begin(), specs.end(), [&](const ParameterSpec& spec) {
      return is_quantizable(spec, /*trained=*/false) && spec.shape[1] % quant::block_of(scheme) != 0;
    });
  };
  for (const quant::Scheme scheme : quant::kInt4Schemes) {
    if (first_odd_row(scheme) == specs.end()) return scheme;
  }
  const quant::Scheme smallest = *std::rbegin(quant::kInt4Schemes);
  const ParameterSpec& odd = *first_odd_row(smallest);
  throw UsageError(std::string("INT4 takes rows of whole groups, of ") + std::to_string(quant::block_of(smallest)) +
                       " numbers at least, but " + odd.name + " has rows of " + std::to_string(odd.shape[1]),
                   "take INT8 or NF4, which take rows of any length (qat: int8; quantize --format int8 or nf4)");
}

bool is_quantizable(const ParameterSpec& spec, bool trained) {
  return !trained && spec.is_matrix() && spec.name.starts_with("model.layers.");
}

BaseBytes base_bytes(const ModelShape& shape, const config::RunConfig& run, DType stored) {
  const std::optional<quant::Scheme> scheme = base_scheme(shape, run);
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
