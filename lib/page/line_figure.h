// Lines over a common x axis, with a table of the same figures.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "page/scale.h"

namespace fathom::page {

struct LineFigure {
  enum class Marks { kLine, kDots, kBoth };
  struct Series {
    std::string name;                               // "loss"
    std::string style;                              // class of page.css: "s0", "s1"
    std::vector<std::pair<double, double>> points;  // x ascending
    Marks marks = Marks::kLine;
  };
  std::string title;
  std::string label;    // in words, for those who cannot see it
  std::string x_title;  // "step"
  Axis x, y;
  std::optional<Axis> linear;  // the other way to see y, to which a button switches
  struct Mark {
    double x = 0, y = 0;
    std::string text;  // "lowest, 0.0726"
  };
  std::optional<Mark> mark;                   // one point that matters
  std::string (*value)(double) = nullptr;     // writes a y value in readout and table
  std::string (*position)(double) = nullptr;  // writes an x value
  std::vector<Series> series;
  std::string format() const;
};

// At most `count` of them, the first and the last among them, each stretch by its mean.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points, size_t count);

}  // namespace fathom::page
