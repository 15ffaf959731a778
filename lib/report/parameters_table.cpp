// Multiplies.
#include "report/parameters_table.h"

#include "base/bytes.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "plan/advice/rules.h"
#include "plan/inference.h"
#include "report/table.h"

namespace fathom::report {
namespace {

// The rules say nothing but a multiple of the parameters where there is no run to hold them against.
std::vector<plan::RuleOfThumb> rules_of(int64_t parameters) {
  plan::Comparison comparison;
  comparison.plan.workload.parameters = comparison.plan.workload.trained_parameters = parameters;
  return plan::rules_of_thumb(comparison);
}

}  // namespace

std::string format_parameters(int64_t parameters) {
  std::string text = format_count(parameters) + " parameters; GB are 10^9 bytes\n\n";
  Table formats({{"to load", Align::kLeft}, {"bytes each"}, {""}});
  for (const plan::WeightFormat& format : plan::kWeightFormats) {
    formats.add_row({format.name, format_by("%g", format.bytes_per_parameter),
                     format_gigabytes(plan::weight_bytes(parameters, format)) + " GB"});
  }
  Table rules({{.title = "rules of thumb", .align = Align::kLeft, .folds = true}, {""}});
  for (const plan::RuleOfThumb& rule : rules_of(parameters))
    rules.add_row({rule.name, format_gigabytes(rule.bytes) + " GB"});
  return text + formats.format() + "\n" + rules.format() +
         "\nA shape says more: fathom estimate llama-2-7b, or a folder with config.json.\n";
}

Json parameters_json(int64_t parameters) {
  Json json = {{"parameters", parameters}, {"weights", Json::array()}, {"rules_of_thumb", Json::array()}};
  for (const plan::WeightFormat& format : plan::kWeightFormats) {
    json["weights"].push_back({{"format", format.name}, {"bytes", plan::weight_bytes(parameters, format)}});
  }
  for (const plan::RuleOfThumb& rule : rules_of(parameters)) {
    json["rules_of_thumb"].push_back({{"name", rule.name}, {"bytes", rule.bytes}});
  }
  return json;
}

}  // namespace fathom::report
