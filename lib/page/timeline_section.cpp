// Draws the stacked areas; the script adds the single blocks.
#include "page/timeline_section.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "ledger/block_groups.h"
#include "page/html.h"
#include "page/plot.h"
#include "page/stack.h"

namespace fathom::page {
namespace {

using ledger::Component;
using ledger::Timeline;

constexpr size_t kColumns = 1600;
constexpr size_t kParts = 2500;
constexpr size_t kLargestRows = 14;

std::string title_of(std::string_view name) {
  std::string title(name);
  std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

// From its upper edge down to zero: the component above was drawn before, so that no seam can show between the two.
std::string area_path(const std::vector<int64_t>& upper, const Axis& axis) {
  std::string path = "M0 " + std::to_string(kDrawnHeight);
  std::string before;
  for (size_t column = 0; column < upper.size(); ++column) {
    const std::string y = coordinate(kDrawnHeight * (1 - axis.share(static_cast<double>(upper[column]))));
    if (y == before) continue;
    if (column > 0) path += "H" + std::to_string(column);
    path += "V" + y;
    before = y;
  }
  return path + "H" + std::to_string(upper.size()) + "V" + std::to_string(kDrawnHeight) + "Z";
}

std::string areas(const Stack& stack, const Axis& axis) {
  const auto bytes = component_bytes(stack);
  std::vector<int64_t> upper(stack.columns());
  std::string result;
  for (const Component component : ledger::kComponents) {
    const auto& of = bytes[static_cast<size_t>(component)];
    if (std::all_of(of.begin(), of.end(), [](int64_t value) { return value == 0; })) continue;
    std::transform(upper.begin(), upper.end(), of.begin(), upper.begin(), std::plus<>());
    result.insert(0, "<path class=\"" + component_class(component) + "\" d=\"" + area_path(upper, axis) + "\"/>");
  }
  return result;
}

std::string phase_names(const Timeline& timeline) {
  std::array<int64_t, ledger::kPhaseCount> counts{};
  for (const Timeline::Span& span : timeline.phases) counts[static_cast<size_t>(span.phase)]++;
  std::string names;
  for (const ledger::Phase phase : ledger::kPhases) {
    const int64_t count = counts[static_cast<size_t>(phase)];
    if (count == 0) continue;
    const std::string name(ledger::phase_name(phase));
    names +=
        "<em class=\"of-" + name + "\">" + (count > 1 ? format_count(count) + " × " : "") + title_of(name) + "</em>";
  }
  return "<div class=\"phase-names\">" + names + "</div>";
}

// The phases as bars with their names on them; where one is too narrow for its name, on a phone or anywhere, a line
// beneath says what the bars are.
std::string phase_bars(const Stack& stack, const Timeline& timeline) {
  const auto columns = static_cast<double>(stack.columns());
  double narrowest = 1;
  std::string bars;
  for (const Timeline::Span& span : timeline.phases) {
    const auto first = static_cast<double>(stack.column_of(span.begin));
    const auto end = static_cast<double>(std::min(stack.column_of(span.end) + 1, stack.columns()));
    const double share = (end - first) / columns;
    narrowest = std::min(narrowest, share);
    const std::string name(ledger::phase_name(span.phase)), title = title_of(name);
    bars += "<span class=\"of-" + name + "\" style=\"left:" + percent(first / columns) + ";width:" + percent(share) +
            "\" title=\"" + title + "\">" + title + "</span>";
  }
  const char* room = narrowest < 0.11 ? " narrow" : narrowest < 0.25 ? " narrow-on-phone" : "";
  return std::string("<div class=\"phases") + room + "\">" + bars + "</div>" + phase_names(timeline);
}

// The phase in which the timeline is at `position`: one begins with the event after `begin`.
std::string phase_at(const Timeline& timeline, int64_t position) {
  for (const Timeline::Span& span : timeline.phases) {
    if (span.begin < position && position <= span.end) return title_of(ledger::phase_name(span.phase));
  }
  return "";
}

std::string peak_mark(const Stack& stack, const Timeline& timeline, const Axis& axis) {
  const double left =
      (static_cast<double>(stack.column_of(timeline.peak_position)) + 0.5) / static_cast<double>(stack.columns());
  const double height = axis.share(static_cast<double>(timeline.peak));
  return "<div class=\"peak" + std::string(left > 0.6 ? " before" : "") + "\" style=\"left:" + percent(left) +
         ";height:" + percent(height) + "\"><span>peak " + format_bytes(timeline.peak) + "</span></div>";
}

std::string describe(const Stack& stack, const Timeline& timeline, const std::string& kind) {
  const auto bytes = component_bytes(stack);
  const size_t peak = stack.column_of(timeline.peak_position);
  std::string text = kind + " memory over one step, by component. The peak is " + format_bytes(timeline.peak);
  const std::string phase = phase_at(timeline, timeline.peak_position);
  if (!phase.empty()) text += ", during " + phase;
  text += ". At it: ";
  std::string parts;
  for (const Component component : ledger::kComponents) {
    const int64_t value = bytes[static_cast<size_t>(component)][peak];
    if (value > 0) parts += (parts.empty() ? "" : ", ") + component_title(component) + " " + format_bytes(value);
  }
  return text + parts + ".";
}

std::string figure(const Timeline& timeline, const Stack& stack, const Axis& axis, const std::string& kind,
                   const std::string& when, const std::string& drawing) {
  Plot plot;
  plot.label = describe(stack, timeline, kind);
  plot.drawn_width = static_cast<double>(stack.columns());
  plot.drawing = drawing;
  plot.y = axis;
  plot.marks = peak_mark(stack, timeline, axis);
  plot.beneath = phase_bars(stack, timeline);
  return "<figure class=\"timeline\"><figcaption><b>" + kind + "</b> " + when + "<span class=\"aside\">" +
         format_count(timeline.events) + " allocations and releases, in order</span></figcaption>" + plot.format() +
         "</figure>\n";
}

std::string legend(const Stack& stack, const Timeline& timeline) {
  const auto bytes = component_bytes(stack);
  const size_t peak = stack.column_of(timeline.peak_position);
  std::string text = "<ul class=\"legend\">";
  for (const Component component : ledger::kComponents) {
    const auto& of = bytes[static_cast<size_t>(component)];
    if (std::all_of(of.begin(), of.end(), [](int64_t value) { return value == 0; })) continue;
    text += "<li data-component=\"" + std::to_string(static_cast<int>(component)) + "\"><i class=\"" +
            component_class(component) + "\"></i>" + component_title(component) + "<b>" + format_bytes(of[peak]) +
            "</b></li>";
  }
  return text +
         "</ul>\n<p class=\"readout\" aria-live=\"polite\">Bytes are those at the peak. Point at the figure, tap "
         "it, or use the arrow keys: every block has a name.</p>\n";
}

std::string largest_table(const Timeline& timeline) {
  HtmlTable table{.caption = "",
                  .columns = {{"alive at the peak", false},
                              {"component", false},
                              {"blocks", true},
                              {"each", true},
                              {"together", true},
                              {"of the peak", true}},
                  .rows = {},
                  .total = {}};
  const std::vector<ledger::BlockGroup> groups = ledger::groups_at_peak(timeline).largest_first();
  const auto share = [&](int64_t bytes) {
    return decimal(100 * static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(timeline.peak, 1)), 1) +
           " %";
  };
  int64_t left_bytes = 0, left_count = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    const ledger::BlockGroup& group = groups[i];
    if (i >= kLargestRows) {
      left_bytes += group.bytes();
      left_count += group.count;
      continue;
    }
    table.rows.push_back(
        {"<code>" + escaped(group.what.empty() ? "without a name" : group.what) + "</code>",
         "<i class=\"swatch " + component_class(group.component) + "\"></i>" + component_title(group.component),
         format_count(group.count), format_bytes(group.each), format_bytes(group.bytes()), share(group.bytes())});
  }
  if (left_count > 0) {
    table.rows.push_back({"all others", "", format_count(left_count), "", format_bytes(left_bytes), share(left_bytes)});
  }
  table.total = {"peak", "", "", "", format_bytes(timeline.peak), "100 %"};
  return table.format();
}

std::string peak_text(const Timeline& timeline) {
  const std::string phase = phase_at(timeline, timeline.peak_position);
  return "<h3>What fills the peak</h3>\n<p>" + format_count(timeline.peak) + " bytes are alive after event " +
         format_count(timeline.peak_position) + (phase.empty() ? "" : ", during " + phase) +
         ". Blocks of equal size in different layers are one row.</p>\n";
}

}  // namespace

std::string component_class(Component component) { return "c" + std::to_string(static_cast<int>(component)); }

std::string component_title(Component component) { return title_of(ledger::component_name(component)); }

std::string timeline_section(const RunRecord& record) {
  if (!record.predicted && !record.measured) return "";
  std::optional<Timeline> predicted, measured;
  if (record.predicted) predicted = without_scratch(*record.predicted);
  if (record.measured) measured = without_scratch(*record.measured);
  const bool equal = predicted && measured && same_allocations(*predicted, *measured);
  const Axis axis =
      byte_axis(std::max(predicted ? predicted->peak : 0, measured ? measured->peak : 0), /*ticks_at_most=*/5);

  Json data = Json::array();
  std::string figures;
  const auto add = [&](const Timeline& timeline, const char* kind, const char* when, bool again) {
    const Stack stack = stack_of(timeline, kColumns, kParts);
    const std::string id = "areas-" + std::to_string(data.size());
    // What is equal is written once.
    const std::string drawing =
        again ? "<use href=\"#areas-0\"/>" : "<g id=\"" + id + "\">" + areas(stack, axis) + "</g>";
    figures += figure(timeline, stack, axis, kind, when, drawing);
    data.push_back(again ? Json(nullptr) : to_json(stack, timeline));
    if (data.size() == 1) figures.insert(0, legend(stack, timeline));
  };
  if (predicted) add(*predicted, "Predicted", "before the run", false);
  if (measured) add(*measured, "Measured", "during the run", equal);

  std::string lead = "One optimizer step, the one with the largest peak. The height is what is alive, by component.";
  if (equal) {
    lead += " Predicted and measured are the same " + format_count(predicted->events) +
            " allocations and releases, in the same order, byte for byte.";
  } else if (predicted && measured && predicted->phases.size() < measured->phases.size()) {
    lead += " The dry run plays as many batches of a step as can make the largest peak; the run took them all.";
  }
  const Timeline& shown = measured ? *measured : *predicted;
  return "<section id=\"timeline\">\n<h2>Memory over one step</h2>\n<p>" + lead + "</p>\n" + figures +
         peak_text(shown) + largest_table(shown) + "<script type=\"application/json\" id=\"timelines\">" +
         script_json({{"top", axis.last}, {"timelines", data}}) + "</script>\n</section>\n";
}

}  // namespace fathom::page
