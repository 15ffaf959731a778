// From the settings of a run to codes.
#include "arch/storage_schemes.h"

#include <algorithm>

#include "arch/stored_parts.h"
#include "base/error.h"

namespace fathom::arch {

namespace {

std::optional<quant::Scheme> scheme_of_settings(const config::RunConfig& run) {
  if (run.method != config::Method::kLora) return std::nullopt;
  const bool doubly = run.load_in_4bit && run.bnb_4bit_use_double_quant;
  for (const quant::SchemeRow& row : quant::schemes()) {
    const bool asked = row.load_in != nullptr && run.*row.load_in;
    if (asked && doubly == quant::has_double_scales(row.scheme)) return row.scheme;
  }
  return std::nullopt;
}

}  // namespace

std::optional<quant::Scheme> base_scheme(const config::RunConfig& run,
                                         const std::optional<quant::FolderFormat>& stored) {
  const std::optional<quant::Scheme> wanted = scheme_of_settings(run);
  if (!stored) return wanted;
  if (wanted && *wanted != stored->scheme) {
    const std::string key = quant::row_of(*wanted).key;
    throw UsageError(key + ": " + std::string(quant::name_of(*wanted)) + " is wanted, but " +
                         "the model's folder stores its " + coded_parts(stored->scheme) + " in " +
                         std::string(quant::name_of(stored->scheme)),
                     "remove " + key + ", or name the folder before it was quantized");
  }
  return stored->scheme;
}

std::optional<quant::Scheme> fake_scheme(config::Qat qat, const Architecture& architecture) {
  if (qat == config::Qat::kNone || architecture.quantized) return std::nullopt;
  if (const char* why = why_not_stored_in_codes(architecture)) {
    throw UsageError("qat rounds what a folder may store in codes, but " + architecture.family + " " + why,
                     "remove qat, or take another model");
  }
  return qat == config::Qat::kInt8 ? quant::Scheme::kInt8 : int4_scheme(architecture);
}

quant::Scheme int4_scheme(const Architecture& architecture) {
  const std::vector<ParameterSpec> specs = parameter_specs(architecture);
  const auto first_odd_row = [&](quant::Scheme scheme) {
    return std::find_if(specs.begin(), specs.end(), [&](const ParameterSpec& spec) {
      return spec.role == Role::kProjection && spec.shape[1] % quant::block_of(scheme) != 0;
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

}  // namespace fathom::arch
