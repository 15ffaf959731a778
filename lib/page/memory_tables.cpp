// Sets predicted beside measured.
#include "page/memory_tables.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "page/html.h"
#include "page/run_record.h"
#include "page/timeline_section.h"

namespace fathom::page {
namespace {

using Cells = std::vector<std::string>;
using memory::Component;

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

// The words of the tables, for those who meet them first.
constexpr const char* kWords = R"(<details><summary>What the seven are</summary><dl class="words">
<dt>weights</dt><dd>The model's parameters: trained, frozen, adapters.</dd>
<dt>optimizer states</dt><dd>What the optimizer keeps between steps, as AdamW's two moments.</dd>
<dt>gradients</dt><dd>One number for each trained parameter, from the backward pass until the update.</dd>
<dt>functionality</dt><dd>What a feature holds: the batches on their way, autocast's copies of parameters.</dd>
<dt>activations</dt><dd>Made in the forward pass and kept for the backward pass; they grow with batch and length.</dd>
<dt>temporary buffers</dt><dd>Everything else within a step: gradients of activations, logits, the optimizer's workspace.</dd>
<dt>kernels</dt><dd>Workspaces that libraries take from the allocator, as cuBLAS does on a GPU.</dd>
</dl></details>
)";

// What the rules say of one component; of most they say nothing. Those of totals are no sum of these, and stand in a
// section of their own.
std::string rule_cell(const Json& memory, std::string_view component) {
  for (const Json& rule : list_at(memory, {"rules_of_thumb"})) {
    if (text_at(rule, {"component"}) != component) continue;
    if (const auto bytes = bytes_at(rule, {"bytes"})) return format_count(*bytes);
  }
  return "";
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
                              {"measured", true},
                              {"rounded", true}},
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
    if (range == format_count(*dry_run)) range.clear();
    const auto measured = bytes_at(memory, {figure, "measured"});
    table.rows.push_back(
        {figure, format_count(*dry_run), range, count_cell(measured), size_cell(measured ? measured : dry_run)});
  }
  table.leave_out_empty_columns();
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

// How the value of a key is written, by how the key ends; what stands in the name of it already is left out there.
struct Kind {
  std::string_view ending;
  bool named;  // the ending is a word of the name: "bytes moved"
  std::string (*text)(double);
};

std::string dollars_text(double value) { return "$" + format_decimal(value, std::abs(value) < 100 ? 2 : 0); }

constexpr Kind kKinds[] = {
    {"flops_per_second", false, [](double value) { return format_quantity(value, "FLOP/s"); }},
    {"bytes_per_second", true, [](double value) { return format_quantity(value, "B/s"); }},
    {"tokens_per_second", true, [](double value) { return format_decimal(value, 0); }},
    {"flops", false, [](double value) { return format_quantity(value, "FLOP"); }},
    {"efficiency", true, [](double value) { return format_decimal(100 * value, 0) + " %"; }},
    {"bytes_moved", true, [](double value) { return format_quantity(value, "B"); }},
    {"bytes", false, bytes_text},
    {"seconds", false, format_seconds},
    {"dollars", false, dollars_text},
    {"usd", false, dollars_text},
    {"price_per_hour", true, dollars_text},
};

const Kind* kind_of(const std::string& key) {
  const auto found =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& kind) { return key.ends_with(kind.ending); });
  return found == std::end(kKinds) ? nullptr : &*found;
}

std::string fact_text(const std::string& section, const std::string& key, const Json& value) {
  if (value.is_null()) return kNone;
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return escaped(value.get<std::string>());
  const auto number = value.get<double>();
  if (const Kind* kind = kind_of(key)) return kind->text(number);
  if (section == "host" || section == "resident") return bytes_text(number);
  if (value.is_number_integer()) return format_count(value.get<int64_t>());
  return format_decimal(number, 3);
}

// Words for keys that say too little; of others the key, without the unit that the value has.
std::string fact_name(const std::string& section, const std::string& key) {
  // A bound, not what a dry run counts.
  if (section == "resident")
    return key == "dry_run" ? "grows by at most" : key == "measured" ? "grew by" : title_of(key);
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"matrix_flops", "matrix products of a step"},
      {"attention_flops", "attention of a step"},
      {"bytes_moved", "bytes moved by everything else"},
      {"tokens", "tokens of a step"},
      {"matrix_flops_per_second", "speed of matrix products"},
      {"attention_flops_per_second", "speed of attention"},
      {"bytes_per_second", "speed of memory"},
      {"matrix_efficiency", "reached of it by matrix products"},
      {"attention_efficiency", "reached of it by attention"},
      {"memory_efficiency", "reached of it by memory"},
      {"matrix_seconds", "matrix products"},
      {"attention_seconds", "attention"},
      {"memory_seconds", "everything else"},
      {"exposed_communication_seconds", "communication, not hidden"},
      {"step_seconds", "a step"},
      {"link_bytes_per_second", "speed of links in a node"},
      {"network_bytes_per_second", "speed of the network"},
      {"efficiency", "reached of both"},
      {"gathered_bytes", "parameters that a process sends"},
      {"reduced_bytes", "gradients, to where they are kept"},
      {"summed_bytes", "gradients, summed over copies"},
      {"link_bytes", "of all that, over links"},
      {"network_bytes", "over the network"},
      {"hidden_seconds", "behind computing"},
      {"exposed_seconds", "not hidden"},
      {"tokens_per_second_of_all", "tokens of all processes"},
      {"measured_seconds", "took"},
      {"expected_seconds", "expected"},
      {"program", "the program itself"},
      {"mapped_files", "the weights' files, mapped"},
      {"load_peak", "to load, at least"},
      {"train_peak", "to train, at least"},
      {"save_peak", "to save, at least"}};
  for (const auto& [name, words] : kNames) {
    if (key == name) return words;
  }
  const Kind* kind = kind_of(key);
  if (kind == nullptr || kind->named || key.size() <= kind->ending.size() + 1) return title_of(key);
  return title_of(key.substr(0, key.size() - kind->ending.size() - 1));
}

std::string fact_title(const std::string& section) {
  constexpr std::pair<const char*, const char*> kTitles[] = {{"arithmetic", "Work of a step"},
                                                             {"time", "Time of steps"},
                                                             {"communication", "Communication of a step, reckoned"},
                                                             {"run", "The whole run"},
                                                             {"cost", "Cost"},
                                                             {"resident", "Resident memory of the process"},
                                                             {"host", "Memory of the host"}};
  for (const auto& [name, title] : kTitles) {
    if (section == name) return title;
  }
  return title_of(section);
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
                              {"rounded", true}},
                  .rows = {},
                  .total = {}};
  for (const Component component : memory::kComponents) {
    const std::string name(component_name(component));
    table.rows.push_back(
        figure_cells("<i class=\"swatch " + component_class(component) + "\"></i>" + component_title(component),
                     rule_cell(memory, name), at(components, name)));
  }
  table.total = figure_cells("total", "", at(memory, "peak"));
  table.leave_out_empty_columns();
  const bool measured = bytes_at(memory, {"peak", "measured"}).has_value();
  return "<section id=\"components\">\n<h2>Seven components</h2>\n<p>Every byte belongs to one of them; they add up to "
         "the peak. " +
         std::string(measured ? "The difference is measured less dry run. " : "") +
         "<i>Analytic</i> is a sum to check by hand, <i>dry run</i> the training step itself, played on hardware that "
         "is not "
         "there.</p>\n" +
         table.format() + kWords + allocator_table(memory) + beside_the_components(memory) + derivation(memory) +
         "</section>\n";
}

std::string phase_section(const Json& memory) {
  const Json& phases = at(memory, "phases");
  if (!phases.is_object() || phases.empty()) return "";
  HtmlTable table{.caption = "",
                  .columns = {{"phase", false},
                              {"peak, dry run", true},
                              {"measured", true},
                              {"difference", true},
                              {"rounded", true},
                              {"left at its end", true},
                              {"difference", true}},
                  .rows = {},
                  .total = {}};
  for (const auto& [name, phase] : phases.items()) {
    const auto dry_run = bytes_at(phase, {"peak", "dry_run"}), measured = bytes_at(phase, {"peak", "measured"});
    std::optional<int64_t> end_dry_run, end_measured;
    for (const Component component : memory::kComponents) {
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
  table.leave_out_empty_columns();
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
      facts += "<dt>" + escaped(fact_name(key, name)) + "</dt><dd>" + fact_text(key, name, fact) + "</dd>";
    }
    if (!facts.empty()) text += "<div><h3>" + escaped(fact_title(key)) + "</h3><dl>" + facts + "</dl></div>\n";
  }
  return text.empty() ? ""
                      : "<section id=\"facts\">\n<h2>Work, time and the host</h2>\n<div class=\"facts\">" + text +
                            "</div></section>\n";
}

}  // namespace fathom::page
