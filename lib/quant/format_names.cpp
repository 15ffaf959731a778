// Types, and the table of quantized formats.
#include "quant/format_names.h"

#include "base/error.h"

namespace fathom::quant {
namespace {

std::vector<NamedFormat> formats() {
  std::vector<NamedFormat> formats = {
      {"fp32", std::nullopt, DType::kF32}, {"fp16", std::nullopt, DType::kF16}, {"bf16", std::nullopt, DType::kBF16}};
  for (const SchemeRow& row : schemes()) {
    if (!row.word.empty()) formats.push_back({row.word, row.scheme});
  }
  return formats;
}

}  // namespace

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const NamedFormat& format : formats()) names.emplace_back(format.name);
  return names;
}

NamedFormat find_format(std::string_view name) {
  std::string known;
  for (const NamedFormat& format : formats()) {
    if (format.name == name) return format;
    known.append(known.empty() ? "" : ", ").append(format.name);
  }
  throw UsageError("unknown format '" + std::string(name.substr(0, 64)) + "'", "formats are " + known);
}

}  // namespace fathom::quant
