// Draws the stacked areas; the script adds the single blocks.
#include "page/timeline_section.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "memory/block_groups.h"
#include "page/html.h"
#include "page/plot.h"
#include "page/stack.h"

namespace fathom::page {
namespace {

using memory::Component;
using memory::Timeline;

constexpr size_t kColumns = 1200;
constexpr size_t kLargestRows = 14;

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
  std::vector<int64_t> upper(stack.columns());
  std::string result;
  for (const Component component : memory::kComponents) {
    const auto& of = stack.bytes[static_cast<size_t>(component)];
    std::transform(upper.begin(), upper.end(), of.begin(), upper.begin(), std::plus<>());
    result.insert(0, "<path class=\"" + component_class(component) + "\" d=\"" + area_path(upper, axis) + "\"/>");
  }
  return result;
}

// The time axis: phases as bars with their names, which the script lays out anew for a stretch, and under them what the
// bars are where they are too narrow for names.
std::string phase_axis(const Stack& stack, const Timeline& timeline) {
  const auto columns = static_cast<double>(stack.columns());
  std::array<int64_t, memory::kPhaseCount> counts{};
  std::string bars, names;
  double narrowest = 1;
  for (const Timeline::Span& span : timeline.phases) {
    const auto first = static_cast<double>(stack.column_of(span.begin));
    const auto end = static_cast<double>(std::min(stack.column_of(span.end) + 1, stack.columns()));
    const double share = (end - first) / columns;
    narrowest = std::min(narrowest, share);
    counts[static_cast<size_t>(span.phase)]++;
    const std::string name(memory::phase_name(span.phase));
    bars += "<span class=\"of-" + name + "\" style=\"left:" + percent(first / columns) + ";width:" + percent(share) +
            "\"><b>" + title_of(name) + "</b></span>";
  }
  for (const memory::Phase phase : memory::kPhases) {
    const int64_t count = counts[static_cast<size_t>(phase)];
    if (count == 0) continue;
    const std::string name(memory::phase_name(phase));
    names +=
        "<em class=\"of-" + name + "\">" + (count > 1 ? format_count(count) + " × " : "") + title_of(name) + "</em>";
  }
  // In the bars or in one line beneath, not in both.
  const std::string where = narrowest < 0.11 ? " beneath" : "";
  return "<div class=\"phases" + where + "\">" + bars + "</div><div class=\"phase-names" + where + "\">" + names +
         "</div><div class=\"events\" aria-hidden=\"true\"><span>before the step</span><span>event " +
         format_count(timeline.events) + "</span></div>";
}

// The phase in which the timeline is at `position`: one begins with the event after `begin`.
std::string phase_at(const Timeline& timeline, int64_t position) {
  for (const Timeline::Span& span : timeline.phases) {
    if (span.begin < position && position <= span.end) return title_of(memory::phase_name(span.phase));
  }
  return "";
}

std::string peak_mark(const Stack& stack, const Timeline& timeline, const Axis& axis) {
  const double left =
      (static_cast<double>(stack.column_of(timeline.peak_position)) + 0.5) / static_cast<double>(stack.columns());
  const double height = axis.share(static_cast<double>(timeline.peak));
  const char* side = left > 0.9 ? " before" : left < 0.1 ? " after" : "";
  return std::string("<div class=\"peak").append(side) + "\" style=\"left:" + percent(left) +
         ";height:" + percent(height) + "\"><span>peak " + format_bytes(timeline.peak) + "</span></div>";
}

// What the device holds, where the picture reaches so far.
std::string capacity_mark(const Capacity& capacity, const Axis& axis) {
  if (capacity.bytes <= 0 || static_cast<double>(capacity.bytes) > axis.last) return "";
  return "<div class=\"capacity\" style=\"bottom:" + percent(axis.share(static_cast<double>(capacity.bytes))) +
         "\"><span>" + escaped(capacity.name) + ": " + format_bytes(capacity.bytes) + "</span></div>";
}

std::string describe(const Stack& stack, const Timeline& timeline, const std::string& kind) {
  const auto& bytes = stack.bytes;
  const size_t peak = stack.column_of(timeline.peak_position);
  std::string text = kind + " memory over one step, by component. The peak is " + format_bytes(timeline.peak);
  const std::string phase = phase_at(timeline, timeline.peak_position);
  if (!phase.empty()) text += ", during " + phase;
  text += ". At it: ";
  std::string parts;
  for (const Component component : memory::kComponents) {
    const int64_t value = bytes[static_cast<size_t>(component)][peak];
    if (value > 0) parts += (parts.empty() ? "" : ", ") + component_title(component) + " " + format_bytes(value);
  }
  return text + parts + ".";
}

std::string figure(const Timeline& timeline, const Axis& axis, const Capacity& capacity, const std::string& kind,
                   const std::string& when) {
  const Stack stack = stack_of(timeline, kColumns);
  Plot plot;
  plot.label = describe(stack, timeline, kind);
  plot.drawn_width = static_cast<double>(stack.columns());
  plot.drawing = "<g class=\"areas\">" + areas(stack, axis) + "</g>";
  plot.y = axis;
  plot.marks = capacity_mark(capacity, axis) + peak_mark(stack, timeline, axis);
  plot.beneath = phase_axis(stack, timeline);
  return "<figure class=\"timeline\"><figcaption><b>" + kind + "</b> " + when + "<span class=\"aside\">" +
         format_count(timeline.events) + " allocations and releases, in order</span></figcaption>" + plot.format() +
         "</figure>\n";
}

std::string legend(const Timeline& timeline) {
  const Stack stack = stack_of(timeline, kColumns);
  const size_t peak = stack.column_of(timeline.peak_position);
  std::string text = "<ul class=\"legend\">";
  for (const Component component : memory::kComponents) {
    const auto& of = stack.bytes[static_cast<size_t>(component)];
    const bool used = std::any_of(of.begin(), of.end(), [](int64_t value) { return value != 0; });
    text += "<li data-component=\"" + std::to_string(static_cast<int>(component)) + "\"" + (used ? "" : " hidden") +
            "><i class=\"" + component_class(component) + "\"></i>" + component_title(component) + "<b>" +
            format_bytes(of[peak]) + "</b></li>";
  }
  return text +
         "</ul>\n<div class=\"tools\" hidden><button type=\"button\" data-zoom=\"in\" aria-label=\"zoom in\">+</button>"
         "<button type=\"button\" data-zoom=\"out\" aria-label=\"zoom out\">−</button>"
         "<button type=\"button\" data-zoom=\"left\" aria-label=\"earlier\">←</button>"
         "<button type=\"button\" data-zoom=\"right\" aria-label=\"later\">→</button>"
         "<button type=\"button\" data-zoom=\"peak\">the peak</button>"
         "<button type=\"button\" data-zoom=\"all\">whole step</button>"
         "<span class=\"stretch\"></span></div>\n";
}

// Where two timelines part: live bytes after the same event.
std::string difference(const Timeline& predicted, const Timeline& measured) {
  const std::vector<int64_t> before = live_bytes(predicted), after = live_bytes(measured);
  const size_t shared = std::min(before.size(), after.size());
  size_t equal = 0, largest = 0;
  const auto off = [&](size_t at) { return std::abs(after[at] - before[at]); };
  while (equal < shared && before[equal] == after[equal]) equal++;
  if (equal == shared && before.size() == after.size()) {
    return "<p class=\"difference\"><b class=\"equal\">measured − predicted: 0</b> at all " +
           format_count(predicted.events) + " events</p>\n";
  }
  std::string text = "<p class=\"difference\"><b>measured − predicted:</b> 0 at the first " +
                     format_count(static_cast<int64_t>(equal)) + " of " + format_count(measured.events + 1) +
                     " instants";
  for (size_t at = equal; at < shared; ++at) {
    if (off(at) > off(std::max(largest, equal))) largest = at;
  }
  if (equal < shared) text += "; then they part, by " + format_bytes(off(std::max(largest, equal))) + " at most";
  if (before.size() != after.size()) text += "; predicted are " + format_count(predicted.events) + " events";
  return text + "</p>\n";
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
  const std::vector<memory::BlockGroup> groups = memory::groups_at_peak(timeline).largest_first();
  const auto share = [&](int64_t bytes) {
    return format_decimal(100 * static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(timeline.peak, 1)),
                          1) +
           " %";
  };
  int64_t left_bytes = 0, left_count = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    const memory::BlockGroup& group = groups[i];
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

std::string component_title(Component component) { return title_of(memory::component_name(component)); }

std::string timeline_section(const RunRecord& record, const Capacity& capacity) {
  if (!record.predicted && !record.measured) return "";
  std::optional<Timeline> predicted, measured;
  if (record.predicted) predicted = without_scratch(*record.predicted);
  if (record.measured) measured = without_scratch(*record.measured);
  const bool equal = predicted && measured && same_allocations(*predicted, *measured);
  const int64_t peak = std::max(predicted ? predicted->peak : 0, measured ? measured->peak : 0);
  // A capacity far above would leave no room for the picture.
  const bool near = static_cast<double>(capacity.bytes) < 1.4 * static_cast<double>(peak);
  const Axis axis = byte_axis(near ? std::max(peak, capacity.bytes) : peak, /*ticks_at_most=*/5);

  Json data = Json::array();
  std::string figures;
  const auto add = [&](const Timeline& timeline, const char* kind, const char* when) {
    figures += figure(timeline, axis, capacity, kind, when);
    data.push_back(script_data(timeline));
  };
  if (equal) {
    add(*measured, "Predicted and measured", "before the run, and during it");
  } else {
    if (predicted) add(*predicted, "Predicted", "before the run");
    if (measured) add(*measured, "Measured", "during the run");
  }
  if (predicted && measured) figures += difference(*predicted, *measured);

  std::string lead = "One optimizer step, the one with the largest peak. The height is what is alive, by component.";
  if (equal) {
    lead += " Predicted and measured are the same " + format_count(predicted->events) +
            " allocations and releases, in the same order, byte for byte.";
  } else if (predicted && measured && predicted->phases.size() < measured->phases.size()) {
    lead += " The dry run plays as many batches of a step as can make the largest peak; the run took them all.";
  }
  const Timeline& shown = measured ? *measured : *predicted;
  return "<section id=\"timeline\">\n<h2>Memory over one step</h2>\n<p>" + lead + "</p>\n" + legend(shown) + figures +
         "<p class=\"hint\" hidden>Point at a block and it is named. Drag to look at a stretch, or use the buttons; "
         "the wheel "
         "zooms once the picture is clicked. Keys: arrows walk events and blocks, + and − zoom, 0 shows the whole step."
         "</p>\n<p class=\"spoken\" aria-live=\"polite\"></p>\n" +
         peak_text(shown) + largest_table(shown) + "<script type=\"application/json\" id=\"timelines\">" +
         script_json({{"top", axis.last}, {"timelines", data}}) + "</script>\n</section>\n";
}

}  // namespace fathom::page
