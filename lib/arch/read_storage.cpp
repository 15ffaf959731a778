// The type of the weights, and the codes of those that are quantized.
#include "arch/read_storage.h"

#include <string>

#include "arch/families.h"
#include "arch/stored_parts.h"
#include "base/error.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

// Of experts whose rows are whole blocks.
void check_mxfp4(const ConfigJson& config, const Architecture& architecture) {
  const Experts* experts = architecture.experts();
  if (experts == nullptr || experts->files != ExpertFiles::kTurned) {
    config.refuse(kQuantization, "mxfp4 is known of gpt-oss's experts alone");
  }
  const int64_t block = quant::block_of(architecture.quantized->scheme);
  for (const int64_t width : {architecture.hidden_size, architecture.layers.front().feed_forward.width}) {
    if (width % block == 0) continue;
    config.refuse(kQuantization, "mxfp4 has blocks of " + std::to_string(block) +
                                     " numbers, which do not divide rows of " + std::to_string(width));
  }
}

void check_fp8_blocks(const ConfigJson& config, const Architecture& architecture) {
  const int64_t block = quant::block_of(architecture.quantized->scheme);
  for (const ParameterSpec& spec : parameter_specs(architecture)) {
    if (!spec.may_be_coded() || spec.shape[1] % block == 0) continue;
    config.refuse(kQuantization, "fp8 has blocks of " + std::to_string(block) + " columns, which do not divide " +
                                     spec.name + "'s " + std::to_string(spec.shape[1]));
  }
}

const char* dtype_key(const ConfigJson& config) { return config.find("dtype") ? "dtype" : "torch_dtype"; }

bool says_dtype(const ConfigJson& config) {
  const Json* value = config.find(dtype_key(config));
  return value != nullptr && *value != "auto";
}

DType read_dtype(const ConfigJson& config) {
  const char* key = dtype_key(config);
  const Json* value = config.find(key);
  if (value == nullptr) return DType::kF32;
  if (!value->is_string()) config.refuse(key, "expected the name of a type, got " + value->dump());
  if (*value == "auto") return DType::kF32;
  DType type = DType::kF32;
  try {
    type = dtype_from_name(value->get<std::string>());
  } catch (const Error& error) {
    config.refuse(key, error.what());
  }
  if (!is_floating(type)) config.refuse(key, value->dump() + " is not a floating-point type");
  return type;
}

void read_quantization(const ConfigJson& config, const Json& quantization, std::string_view origin,
                       const Family& family, Architecture& architecture) {
  const bool mxfp4 = quant::asks_for_mxfp4(quantization) && family.keys == Keys::kGptOss;
  const char* why = quant::asks_for_fp8_blocks(quantization) ? why_not_stored_in_blocks(architecture)
                                                             : why_not_stored_in_codes(architecture);
  if (!mxfp4 && why != nullptr) {
    config.refuse(kQuantization, std::string(family.name) + " " + why + ", and is read in floating point alone",
                  "name the folder before it was quantized, with load_in_4bit: true for a base of NF4");
  }
  architecture.quantized = quant::parse_quantization_config(quantization, origin);
  if (architecture.quantized->library == quant::Library::kBlockFp8) check_fp8_blocks(config, architecture);
  if (architecture.quantized->library != quant::Library::kTransformers) return;
  check_mxfp4(config, architecture);
  if (!says_dtype(config)) architecture.dtype = DType::kBF16;  // in which OpenAI's folders have the rest
}

}  // namespace

void read_storage(const ConfigJson& config, std::string_view origin, const Family& family, Architecture& architecture) {
  architecture.dtype = read_dtype(config);
  if (const Json* quantization = config.asked(kQuantization)) {
    read_quantization(config, *quantization, origin, family, architecture);
  }
}

}  // namespace fathom::arch
