// Draws polylines; a dot is a line of no length with round ends, which keeps its shape however the drawing is
// stretched.
#include "page/line_figure.h"

#include <algorithm>
#include <map>

#include "base/json_value.h"
#include "page/html.h"
#include "page/plot.h"

namespace fathom::page {
namespace {

constexpr double kDrawnWidth = 1000;
constexpr size_t kTableRows = 24;
// A line of more points is drawn as the means of stretches, over a band from the least to the most of each.
constexpr size_t kPointsOfPlainLine = 240, kStretches = 60;

struct Place {
  double x = 0, y = 0;
  std::string text() const { return coordinate(x) + " " + coordinate(y); }
};

// At its ends both reach the first and the last point.
std::string smoothed_path(const std::vector<Place>& places, const std::string& style) {
  std::string line, upper, lower;
  for (size_t i = 0; i < kStretches; ++i) {
    const auto begin = places.begin() + static_cast<std::ptrdiff_t>(places.size() * i / kStretches),
               end = places.begin() + static_cast<std::ptrdiff_t>(places.size() * (i + 1) / kStretches);
    Place mean;
    for (auto at = begin; at != end; ++at) {
      mean.x += at->x / static_cast<double>(end - begin);
      mean.y += at->y / static_cast<double>(end - begin);
    }
    if (i == 0) mean.x = places.front().x;
    if (i + 1 == kStretches) mean.x = places.back().x;
    const auto [least, most] =
        std::minmax_element(begin, end, [](const Place& a, const Place& b) { return a.y < b.y; });
    line += (i == 0 ? "M" : "L") + mean.text();
    upper += (i == 0 ? "M" : "L") + Place{mean.x, least->y}.text();
    lower.insert(0, "L" + Place{mean.x, most->y}.text());
  }
  return "<path class=\"spread " + style + "\" d=\"" + upper + lower + "Z\"/><path class=\"line " + style + "\" d=\"" +
         line + "\"/>";
}

std::string path_of(const LineFigure::Series& series, const Axis& x, const Axis& y) {
  std::vector<Place> places;
  for (const auto& [at, value] : series.points) {
    places.push_back({kDrawnWidth * x.share(at), kDrawnHeight * (1 - y.share(value))});
  }
  if (series.marks == LineFigure::Marks::kLine && places.size() > kPointsOfPlainLine) {
    return smoothed_path(places, series.style);
  }
  std::string line, dots;
  for (const Place& at : places) {
    const std::string place = at.text();
    line += (line.empty() ? "M" : "L") + place;
    dots += "M" + place + "h0";
  }
  const bool single = series.points.size() == 1;  // would be a line of no length
  std::string text;
  if (series.marks != LineFigure::Marks::kDots) {
    text += "<path class=\"line " + series.style + "\" d=\"" + line + "\"/>";
  }
  if (series.marks != LineFigure::Marks::kLine || single) {
    text += "<path class=\"dots " + series.style + "\" d=\"" + dots + "\"/>";
  }
  return text;
}

std::string table_of(const LineFigure& figure) {
  std::map<double, std::vector<std::string>> rows;
  const size_t count = figure.series.size();
  for (size_t i = 0; i < count; ++i) {
    const auto& points = figure.series[i].points;
    const size_t every = std::max<size_t>((points.size() + kTableRows - 1) / kTableRows, 1);
    for (size_t k = 0; k < points.size(); ++k) {
      if (k % every != 0 && k + 1 != points.size()) continue;
      auto& row = rows.try_emplace(points[k].first, count, "").first->second;
      row[i] = escaped(figure.value(points[k].second));
    }
  }
  HtmlTable table;
  table.columns.push_back({escaped(figure.x_title), false});
  for (const auto& series : figure.series) table.columns.push_back({escaped(series.name), true});
  for (const auto& [at, cells] : rows) {
    table.rows.push_back({escaped(figure.position(at))});
    table.rows.back().insert(table.rows.back().end(), cells.begin(), cells.end());
  }
  return "<details><summary>As a table</summary>" + table.format() + "</details>\n";
}

// What the script tells of the point that is nearest to the pointer.
Json data_of(const LineFigure& figure) {
  Json data = Json::array();
  for (const auto& series : figure.series) {
    Json points = Json::array();
    for (const auto& [at, value] : series.points) {
      points.push_back({figure.x.share(at), figure.position(at), figure.value(value)});
    }
    data.push_back({{"name", series.name}, {"points", points}});
  }
  return data;
}

}  // namespace

std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points, size_t count) {
  if (points.size() <= count) return points;
  std::vector<std::pair<double, double>> result = {points.front()};
  const size_t inner = points.size() - 2, stretches = count - 2;
  for (size_t i = 0; i < stretches; ++i) {
    const size_t begin = 1 + inner * i / stretches, end = 1 + inner * (i + 1) / stretches;
    double x = 0, y = 0;
    for (size_t k = begin; k < end; ++k) {
      x += points[k].first;
      y += points[k].second;
    }
    const auto of = static_cast<double>(end - begin);
    result.emplace_back(x / of, y / of);
  }
  result.push_back(points.back());
  return result;
}

std::string LineFigure::format() const {
  const auto plot_over = [&](const Axis& axis) {
    Plot plot;
    plot.label = label;
    plot.drawn_width = kDrawnWidth;
    for (const Series& one : series) plot.drawing += path_of(one, x, axis);
    plot.y = axis;
    plot.beneath = x_ticks(x, x_title);
    if (mark) {
      plot.marks = "<div class=\"mark-at\" style=\"left:" + percent(x.share(mark->x)) +
                   ";bottom:" + percent(axis.share(mark->y)) + "\"></div>";
    }
    return plot.format();
  };
  std::string text = "<figure class=\"lines\"><figcaption><b>" + escaped(title) + "</b>";
  if (series.size() > 1) {
    for (const Series& one : series) {
      if (one.marks == Marks::kDots) continue;  // on a line of the same colour; the text beside the figure says so
      text += "<span class=\"key " + one.style + "\"><i></i>" + escaped(one.name) + "</span>";
    }
  }
  // Beside the title, where it lies over no line.
  if (mark) text += "<span class=\"key ring\"><i></i>" + escaped(mark->text) + "</span>";
  text += "<span class=\"second\">";
  if (y.logarithmic) {
    text +=
        std::string("<span class=\"scale\">") + (x.logarithmic ? "both axes logarithmic" : "logarithmic") + "</span>";
  }
  if (linear) text += "<button type=\"button\" class=\"axis\" hidden>show linear</button>";
  text += "<span class=\"aside readout\"></span></span></figcaption>" + plot_over(y);
  if (linear) text += "<div class=\"other\" hidden>" + plot_over(*linear) + "</div>";
  return text + table_of(*this) + "<script type=\"application/json\">" + script_json(data_of(*this)) +
         "</script></figure>\n";
}

}  // namespace fathom::page
