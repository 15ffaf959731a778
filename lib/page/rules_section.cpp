// Draws each rule's ratio to the figure that it is held against.
#include "page/rules_section.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/bytes.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "page/html.h"
#include "page/run_record.h"
#include "page/scale.h"

namespace fathom::page {
namespace {

// One rule, its ratio to the truth as a bar that starts at 1.
struct Rule {
  std::string name, reason;
  bool meant = false;  // for a run like this one
  int64_t bytes = 0;
  double error = 0;  // (rule − figure) / figure
  double ratio = 1;  // rule / figure
};

std::vector<Rule> read_rules(const Json& memory) {
  std::vector<Rule> rules;
  for (const Json& value : list_at(memory, {"rules_of_thumb"})) {
    const auto bytes = bytes_at(value, {"bytes"});
    const auto error = number_at(value, {"relative_error"});
    if (!bytes || !error) continue;
    rules.push_back({text_at(value, {"name"}), text_at(value, {"reason"}), !text_at(value, {"component"}).empty(),
                     *bytes, *error, std::max(1 + *error, 0.0)});
  }
  std::stable_sort(rules.begin(), rules.end(), [](const Rule& a, const Rule& b) { return a.meant && !b.meant; });
  return rules;
}

// What this run takes, in the rules' own unit: each sentence once.
std::string here_text(const Json& memory) {
  std::vector<std::string> sentences;
  for (const Json& rule : list_at(memory, {"rules_of_thumb"})) {
    const std::string here = text_at(rule, {"here"});
    if (here.empty() || std::find(sentences.begin(), sentences.end(), here) != sentences.end()) continue;
    sentences.push_back(here);
  }
  std::string text;
  for (const std::string& sentence : sentences) text += (text.empty() ? " Here " : "; ") + escaped(sentence);
  return text.empty() ? "" : text + ".";
}

// "+54.0 %" while it reads well, then "× 12"; "exact" for nothing but 0.
std::string error_text(double error) {
  if (error == 0) return "<span class=\"equal\">exact</span>";
  if (error >= 2) return "× " + format_decimal(1 + error, error < 9 ? 1 : 0);
  std::string text = format_change(error);
  if (text.starts_with("-")) text.replace(0, 1, "−");
  return text;
}

std::string ratio_label(double ratio) { return ratio >= 1 ? "× " + decimal(ratio, 0) : "× 1/" + decimal(1 / ratio, 0); }

std::string ratio_bar(double ratio, const Axis& axis) {
  const double one = axis.share(1), end = axis.share(ratio);
  return "<div class=\"ratio\"><u style=\"left:" + percent(one) + "\"></u><i class=\"" +
         (ratio < 1 ? "below" : "above") + "\" style=\"left:" + percent(std::min(one, end)) +
         ";width:" + percent(std::abs(end - one)) + "\"></i></div>";
}

// Of the rules that are meant for such a run, or of the others: one that is far off must not flatten the rest.
Axis ratio_axis(const std::vector<Rule>& rules, bool meant) {
  double lowest = 0.5, highest = 2;
  for (const Rule& rule : rules) {
    if (rule.meant != meant) continue;
    if (rule.ratio > 0) lowest = std::min(lowest, rule.ratio);
    highest = std::max(highest, rule.ratio);
  }
  return logarithmic_axis(lowest, highest, 2, ratio_label, 6);
}

HtmlTable empty_table(const Axis& axis) {
  std::string ticks;
  for (const Tick& tick : axis.ticks) {
    ticks += "<span style=\"left:" + percent(tick.share) + "\">" + tick.label + "</span>";
  }
  return {.caption = "",
          .columns = {{"rule", false},
                      {"it says", true},
                      {"<div class=\"ratio ticks\">" + ticks + "</div>", false},
                      {"off by", true}},
          .rows = {},
          .total = {}};
}

}  // namespace

std::string rules_section(const Json& memory) {
  const std::vector<Rule> rules = read_rules(memory);
  if (rules.empty()) return "";
  const Axis meant_axis = ratio_axis(rules, true), other_axis = ratio_axis(rules, false);
  HtmlTable meant = empty_table(meant_axis), others = empty_table(other_axis);
  for (const Rule& rule : rules) {
    std::string name = escaped(rule.name);
    if (!rule.reason.empty()) name += "<small>" + escaped(rule.reason) + "</small>";
    (rule.meant ? meant : others)
        .rows.push_back({name, format_bytes(rule.bytes), ratio_bar(rule.ratio, rule.meant ? meant_axis : other_axis),
                         error_text(rule.error)});
  }
  std::string tables = meant.rows.empty() ? "" : meant.format();
  if (!others.rows.empty()) {
    tables += "<details><summary>" + format_count(static_cast<int64_t>(others.rows.size())) +
              (meant.rows.empty() ? " rules" : " more, meant for other runs") + "</summary>" + others.format() +
              "</details>\n";
  }
  return "<section id=\"rules\">\n<h2>Rules of thumb against the truth</h2>\n<p>What people reckon with, for a run "
         "like "
         "this one. A bar to the right says too much, one to the left too little. Rules of loading are held against "
         "the "
         "weights, rules of training against the peak." +
         here_text(memory) + "</p>\n" + tables + "</section>\n";
}

}  // namespace fathom::page
