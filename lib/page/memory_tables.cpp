// Sets predicted beside measured.
#include "page/memory_tables.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "page/html.h"
#include "page/run_record.h"
#include "page/timeline_section.h"

namespace fathom::page {
namespace {

using Cells = std::vector<std::string>;
using ledger::Component;

const std::string kNone = "—";

std::string title_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string count_cell(const std::optional<int64_t>& bytes) { return bytes ? format_count(*bytes) : kNone; }

std::string size_cell(const std::optional<int64_t>& bytes) {
  return bytes ? "<span class=\"soft\">" + format_bytes(*bytes) + "</span>" : "";
}

// measured − dry run.
std::string difference_cell(const std::optional<int64_t>& from, const std::optional<int64_t>& to) {
  if (!from || !to) return kNone;
  if (*from == *to) return "<span class=\"equal\">0</span>";
  return "<span class=\"unequal\">" + std::string(*to > *from ? "+" : "−") + format_count(std::abs(*to - *from)) +
         "</span>";
}

// What the rules say of one component; most are about totals only.
std::string rule_cell(const Json& memory, std::string_view component) {
  for (const Json& rule : list_at(memory, {"rules_of_thumb"})) {
    if (text_at(rule, {"component"}) != component) continue;
    if (const auto bytes = bytes_at(rule, {"bytes"})) return format_count(*bytes);
  }
  return kNone;
}

Cells figure_cells(const std::string& title, const std::string& rule, const Json& figures) {
  const auto analytic = bytes_at(figures, {"analytic"}), dry_run = bytes_at(figures, {"dry_run"}),
             measured = bytes_at(figures, {"measured"});
  return {title,
          rule,
          count_cell(analytic),
          count_cell(dry_run),
          count_cell(measured),
          difference_cell(dry_run, measured),
          size_cell(measured ? measured : dry_run)};
}

const Json& at(const Json& object, const std::string& key) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

std::string derivation(const Json& memory) {
  const Json& terms = list_at(memory, {"derivation"});
  if (terms.empty()) return "";
  HtmlTable table{
      .caption = "",
      .columns = {{"what", false}, {"formula", false}, {"layers", true}, {"bytes", true}, {"source", false}},
      .rows = {},
      .total = {}};
  for (const Json& term : terms) {
    const auto layers = bytes_at(term, {"layers"}).value_or(0);
    table.rows.push_back({escaped(text_at(term, {"what"})), escaped(text_at(term, {"formula"})),
                          layers > 0 ? format_count(layers) : "", count_cell(bytes_at(term, {"bytes"})),
                          escaped(text_at(term, {"source"}))});
  }
  return "<details><summary>The analytic figure, term by term</summary>" + table.format() + "</details>\n";
}

// Requested, allocated and reserved of a GPU's caching allocator.
std::string allocator_table(const Json& memory) {
  HtmlTable table{.caption = "",
                  .columns = {{"caching allocator, peak", false},
                              {"dry run", true},
                              {"range over placements", true},
                              {"measured", true}},
                  .rows = {},
                  .total = {}};
  for (const char* figure : {"allocated", "reserved"}) {
    const auto dry_run = bytes_at(memory, {figure, "dry_run"});
    if (!dry_run) continue;
    std::string range;
    for (const Json& end : list_at(memory, {figure, "range"})) {
      const std::string text = end.is_number_integer() ? format_count(end.get<int64_t>()) : std::string();
      if (text != range) range.append(range.empty() ? "" : " … ").append(text);
    }
    table.rows.push_back({figure, format_count(*dry_run), range, count_cell(bytes_at(memory, {figure, "measured"}))});
  }
  return table.rows.empty() ? "" : table.format();
}

// "640 B measured, at most 704 B predicted", or one of the two; empty where there is neither.
std::string measured_and_predicted(const Json& memory, const char* figure) {
  const auto measured = bytes_at(memory, {figure, "measured"}), predicted = bytes_at(memory, {figure, "dry_run"});
  std::string text = measured ? format_bytes(*measured) + " measured" : "";
  if (predicted) text += (text.empty() ? "at most " : ", at most ") + format_bytes(*predicted) + " predicted";
  return text;
}

std::string beside_the_components(const Json& memory) {
  std::string text;
  if (const std::string scratch = measured_and_predicted(memory, "kernel_scratch"); !scratch.empty()) {
    text +=
        "<li>Kernel scratch (what operators take and give back within one call; not in the figures above): " + scratch +
        "</li>";
  }
  if (const std::string both = measured_and_predicted(memory, "peak_with_scratch"); !both.empty()) {
    text += "<li>Live bytes and kernel scratch, their largest sum at one instant: " + both + "</li>";
  }
  if (const auto unexplained = number_at(memory, {"unexplained"})) {
    const auto bytes = static_cast<int64_t>(std::min(std::abs(*unexplained), 9e18));
    text += std::string("<li>The process's memory grew by ") + format_bytes(bytes) +
            (*unexplained < 0 ? " less" : " more") +
            " than the tensors: code, libraries, scratch, freed memory that is kept.</li>";
  }
  return text.empty() ? "" : "<ul class=\"notes\">" + text + "</ul>\n";
}

std::string fact_text(const std::string& key, const Json& value) {
  const auto ends_in = [&](std::string_view end) { return key.ends_with(end); };
  if (value.is_null()) return kNone;
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return escaped(value.get<std::string>());
  const double number = value.get<double>();
  if (ends_in("bytes") && std::abs(number) < 9e18) return format_bytes(static_cast<int64_t>(number));
  if (ends_in("seconds")) return seconds_text(number);
  if (ends_in("usd") || ends_in("dollars")) return "$" + format_count(std::llround(std::clamp(number, -9e18, 9e18)));
  if (value.is_number_integer()) return format_count(value.get<int64_t>());
  return decimal(number, 3);
}

// "load_peak" of "load_peak_bytes": the text of the value has the unit.
std::string without_unit(const std::string& key) {
  for (const std::string_view unit : {"_bytes", "_seconds", "_usd", "_dollars"}) {
    if (key.ends_with(unit)) return key.substr(0, key.size() - unit.size());
  }
  return key;
}

// Keys of memory.json with a place of their own on the page.
bool is_shown_elsewhere(const std::string& key) {
  constexpr const char* kElsewhere[] = {"target", "workload",       "run",        "peak",      "components",
                                        "phases", "maximum",        "allocated",  "reserved",  "rules_of_thumb",
                                        "device", "kernel_scratch", "derivation", "attention", "peak_with_scratch"};
  return std::find(std::begin(kElsewhere), std::end(kElsewhere), key) != std::end(kElsewhere);
}

}  // namespace

std::string component_section(const Json& memory) {
  const Json& components = at(memory, "components");
  if (!components.is_object()) return "";
  HtmlTable table{.caption = "",
                  .columns = {{"at the peak, bytes", false},
                              {"rule of thumb", true},
                              {"analytic", true},
                              {"dry run", true},
                              {"measured", true},
                              {"difference", true},
                              {"", true}},
                  .rows = {},
                  .total = {}};
  for (const Component component : ledger::kComponents) {
    const std::string name(component_name(component));
    table.rows.push_back(
        figure_cells("<i class=\"swatch " + component_class(component) + "\"></i>" + component_title(component),
                     rule_cell(memory, name), at(components, name)));
  }
  table.total = figure_cells("total", rule_cell(memory, "total"), at(memory, "peak"));
  return "<section id=\"components\">\n<h2>Seven components</h2>\n<p>Every byte belongs to one of them; they add up to "
         "the "
         "peak. The difference is measured less dry run.</p>\n" +
         table.format() + allocator_table(memory) + beside_the_components(memory) + derivation(memory) + "</section>\n";
}

std::string phase_section(const Json& memory) {
  const Json& phases = at(memory, "phases");
  if (!phases.is_object() || phases.empty()) return "";
  HtmlTable table{.caption = "",
                  .columns = {{"phase", false},
                              {"peak, dry run", true},
                              {"measured", true},
                              {"difference", true},
                              {"", true},
                              {"left at its end", true},
                              {"difference", true}},
                  .rows = {},
                  .total = {}};
  for (const auto& [name, phase] : phases.items()) {
    const auto dry_run = bytes_at(phase, {"peak", "dry_run"}), measured = bytes_at(phase, {"peak", "measured"});
    std::optional<int64_t> end_dry_run, end_measured;
    for (const Component component : ledger::kComponents) {
      const Json& end = at(at(phase, "end"), std::string(component_name(component)));
      const auto add = [](std::optional<int64_t>& sum, const std::optional<int64_t>& bytes) {
        if (bytes) sum = checked_add(sum.value_or(0), *bytes, "what a phase leaves");
      };
      add(end_dry_run, bytes_at(end, {"dry_run"}));
      add(end_measured, bytes_at(end, {"measured"}));
    }
    table.rows.push_back({escaped(title_of(name)), count_cell(dry_run), count_cell(measured),
                          difference_cell(dry_run, measured), size_cell(measured ? measured : dry_run),
                          count_cell(end_measured ? end_measured : end_dry_run),
                          difference_cell(end_dry_run, end_measured)});
  }
  return "<section id=\"phases\">\n<h2>Phases</h2>\n<p>The largest live bytes in each, and what it leaves "
         "behind.</p>\n" +
         table.format() + "</section>\n";
}

std::string fact_section(const Json& memory) {
  std::string text;
  for (const auto& [key, value] : memory.items()) {
    if (!value.is_object() || is_shown_elsewhere(key)) continue;
    std::string facts;
    for (const auto& [name, fact] : value.items()) {
      if (fact.is_structured() || fact.is_null()) continue;
      facts += "<dt>" + escaped(title_of(without_unit(name))) + "</dt><dd>" + fact_text(name, fact) + "</dd>";
    }
    if (!facts.empty()) text += "<div><h3>" + escaped(title_of(key)) + "</h3><dl>" + facts + "</dl></div>\n";
  }
  return text.empty()
             ? ""
             : "<section id=\"facts\">\n<h2>Beside the bytes</h2>\n<div class=\"facts\">" + text + "</div></section>\n";
}

}  // namespace fathom::page
