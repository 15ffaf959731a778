// One table.
#include "quant/format_names.h"

#include "base/error.h"

namespace fathom::quant {
namespace {

constexpr NamedFormat kFormats[] = {
    {"fp32", std::nullopt, DType::kF32},
    {"fp16", std::nullopt, DType::kF16},
    {"bf16", std::nullopt, DType::kBF16},
    {"fp8", Scheme::kFp8},
    {"int8", Scheme::kInt8},
    {"nf4", Scheme::kNf4},
    {"nf4-double", Scheme::kNf4DoubleQuant},
    {"int4", Scheme::kInt4Group128},
};

}  // namespace

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const NamedFormat& format : kFormats) names.emplace_back(format.name);
  return names;
}

NamedFormat find_format(std::string_view name) {
  std::string known;
  for (const NamedFormat& format : kFormats) {
    if (format.name == name) return format;
    known.append(known.empty() ? "" : ", ").append(format.name);
  }
  throw UsageError("unknown format '" + std::string(name.substr(0, 64)) + "'", "formats are " + known);
}

}  // namespace fathom::quant
