// Lays the account out.
#include "report/derivation.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "base/bytes.h"
#include "base/numbers.h"
#include "plan/advice/rules.h"
#include "report/table.h"

namespace fathom::report {
namespace {

using memory::Component;
using Term = plan::Analytic::Term;

// Sources in the order in which they are first named; tables name them by number.
class Sources {
 public:
  std::string number_of(const std::string& source) {
    if (source.empty()) return "";
    auto found = std::find(sources_.begin(), sources_.end(), source);
    if (found == sources_.end()) found = sources_.insert(sources_.end(), source);
    return std::string("[").append(std::to_string(found - sources_.begin() + 1)).append("]");
  }
  std::string format() const {
    std::string text;
    for (size_t i = 0; i < sources_.size(); ++i) {
      text.append("[").append(std::to_string(i + 1)).append("] ").append(sources_[i]).append("\n");
    }
    return text;
  }

 private:
  std::vector<std::string> sources_;
};

void add_component(Table& table, Component component, const std::vector<Term>& terms, Sources& sources) {
  std::vector<std::vector<std::string>> rows;
  int64_t sum = 0, of_one = 0, rows_of_one = 0, layers = 0;
  bool alike = true;  // every tensor of the layers is alive in as many of them
  const auto times = [](int64_t count) { return "× " + std::to_string(count); };
  for (const Term& term : terms) {
    if (term.component != component) continue;
    const bool of_layers = term.layers > 0;
    const int64_t one = of_layers ? term.bytes / term.layers : 0;
    rows.push_back({"  " + term.what, term.formula, of_layers ? format_count(one) : "",
                    of_layers ? times(term.layers) : "", format_count(term.bytes), sources.number_of(term.source)});
    sum += term.bytes;
    if (!of_layers) continue;
    of_one += one;
    rows_of_one += 1;
    alike = alike && (layers == 0 || layers == term.layers);
    layers = term.layers;
  }
  if (rows.empty()) return;
  if (alike && rows_of_one > 1) {
    rows.push_back({"  sum of the layers", "", format_count(of_one), times(layers), format_count(of_one * layers), ""});
  }
  table.add_row({std::string(component_name(component)), "", "", "", format_count(sum), ""});
  for (std::vector<std::string>& row : rows) table.add_row(std::move(row));
}

}  // namespace

std::string format_derivation(const plan::Analytic& analytic) {
  Table table({{.title = "tensor", .align = Align::kLeft, .folds = true},
               {.title = "numbers", .align = Align::kLeft, .folds = true},
               {"of one layer"},
               {"layers", Align::kLeft},
               {"bytes"},
               {"", Align::kLeft}});
  Sources sources;
  for (const Component component : memory::kComponents) add_component(table, component, analytic.terms, sources);
  table.add_rule();
  table.add_row({"total", "", "", "", format_count(analytic.peak), ""});
  return folded("Analytic account of the peak: " + analytic.instant + "\n") + "\n" + table.format() + "\n" +
         folded(sources.format());
}

std::string format_rules(const plan::Comparison& comparison, bool all) {
  const int64_t shares = comparison.plan.workload.shares;
  const std::string of_a_share = shares > 1 ? ", of one of " + std::to_string(shares) + " shares" : "";
  Table table({{.title = "rule of thumb" + of_a_share, .align = Align::kLeft, .folds = true},
               {"it says"},
               {.title = "", .gives_way = 1},
               {"held against", Align::kLeft},
               {"off by"}});
  std::ostringstream reasons;
  std::vector<std::string> here;
  for (const plan::RuleOfThumb& rule : plan::rules_of_thumb(comparison)) {
    if (!all && !rule.meant) continue;
    table.add_row({rule.name, format_count(rule.bytes), format_bytes(rule.bytes), "the " + rule.against,
                   format_change(rule.relative_error)});
    reasons << "- " << rule.name << ": " << rule.counts << "\n";
    if (!rule.here.empty() && std::find(here.begin(), here.end(), rule.here) == here.end()) here.push_back(rule.here);
  }
  if (!all) return table.format();
  for (const std::string& figure : here) reasons << "Here " << figure << ".\n";
  return table.format() + "\n" + folded(reasons.str());
}

}  // namespace fathom::report
