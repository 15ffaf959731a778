// Lays the account out.
#include "report/derivation.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>
#include <vector>

#include "base/bytes.h"
#include "plan/rules.h"
#include "report/table.h"

namespace fathom::report {
namespace {

using ledger::Component;
using Term = plan::Analytic::Term;

// Sources in the order in which they are first named; tables name them by number.
class Sources {
 public:
  std::string number_of(const std::string& source) {
    if (source.empty()) return "";
    auto found = std::find(sources_.begin(), sources_.end(), source);
    if (found == sources_.end()) found = sources_.insert(sources_.end(), source);
    return "[" + std::to_string(found - sources_.begin() + 1) + "]";
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

std::string percent(double share) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%+.1f %%", 100 * share);
  return text.data();
}

void add_component(Table& table, Component component, const std::vector<Term>& terms, Sources& sources) {
  std::string title(component_name(component));
  int64_t sum = 0, rows = 0;
  for (const Term& term : terms) {
    if (term.component != component) continue;
    const bool of_layers = term.layers > 0;
    table.add_row({title, term.what, term.formula, of_layers ? format_count(term.bytes / term.layers) : "",
                   of_layers ? "× " + std::to_string(term.layers) : "", format_count(term.bytes),
                   sources.number_of(term.source)});
    title.clear();
    sum += term.bytes;
    rows += 1;
  }
  if (rows > 1) table.add_row({"", "sum", "", "", "", format_count(sum), ""});
}

}  // namespace

std::string format_derivation(const plan::Analytic& analytic) {
  Table table({{"component", Align::kLeft},
               {"tensor", Align::kLeft},
               {"numbers", Align::kLeft},
               {"of one layer"},
               {"layers", Align::kLeft},
               {"bytes"},
               {"", Align::kLeft}});
  Sources sources;
  for (const Component component : ledger::kComponents) add_component(table, component, analytic.terms, sources);
  table.add_rule();
  table.add_row({"total", "", "", "", "", format_count(analytic.peak), ""});
  return "Analytic account of the peak: " + analytic.instant + "\n\n" + table.format() + "\n" + sources.format();
}

std::string format_rules(const plan::Comparison& comparison, bool all) {
  Table table({{"rule of thumb", Align::kLeft}, {"it says"}, {""}, {"held against", Align::kLeft}, {"off by"}});
  std::ostringstream reasons;
  for (const plan::RuleOfThumb& rule : plan::rules_of_thumb(comparison)) {
    if (!all && !rule.meant) continue;
    table.add_row({rule.name, format_count(rule.bytes), format_bytes(rule.bytes), "the " + rule.against,
                   percent(rule.relative_error)});
    reasons << "- " << rule.name << ": " << rule.reason << "\n";
  }
  return table.format() + (all ? "\n" + reasons.str() : std::string());
}

}  // namespace fathom::report
