// Writes the markup that page.css lays out.
#include "page/plot.h"

#include "page/html.h"

namespace fathom::page {

std::string coordinate(double value) { return decimal(value, 1); }

std::string x_ticks(const Axis& axis, std::string_view title) {
  std::string text = "<div class=\"x-axis\" aria-hidden=\"true\">";
  for (const Tick& tick : axis.ticks) {
    // Half a label from either edge, so that none leaves the drawing; a digit is 1ch wide.
    const std::string half = decimal(0.5 * static_cast<double>(tick.label.size()), 1) + "ch";
    text += "<span style=\"left:clamp(" + half + "," + percent(tick.share) + ",100% - " + half + ")\">" +
            escaped(tick.label) + "</span>";
  }
  return text + "<em>" + escaped(title) + "</em></div>";
}

std::string Plot::format() const {
  const std::string width = coordinate(drawn_width);
  std::string text = "<div class=\"plot\"><div class=\"y-axis\" aria-hidden=\"true\">";
  std::string lines;
  for (const Tick& tick : y.ticks) {
    text += "<span style=\"bottom:" + percent(tick.share) + "\">" + escaped(tick.label) + "</span>";
    lines += "M0 " + coordinate(kDrawnHeight * (1 - tick.share)) + "H" + width;
  }
  text += "</div><div class=\"area\" tabindex=\"0\" role=\"img\" aria-label=\"" + escaped(label) +
          "\"><svg viewBox=\"0 0 " + width + " " + std::to_string(kDrawnHeight) +
          "\" preserveAspectRatio=\"none\" aria-hidden=\"true\">";
  text += "<path class=\"grid\" d=\"" + lines + "\"/>" + drawing + "</svg>" + marks + "</div>" + beneath + "</div>\n";
  return text;
}

}  // namespace fathom::page
