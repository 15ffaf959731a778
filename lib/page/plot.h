// The frame of a figure: an area with ticks at its left and beneath it. What is drawn stretches with the page, text
// does not.
#pragma once

#include <string>
#include <string_view>

#include "page/scale.h"

namespace fathom::page {

// Heights within a drawing: 0 at the top, kDrawnHeight at the bottom.
inline constexpr int kDrawnHeight = 1000;

struct Plot {
  std::string label;       // says in words what is seen, for those who cannot see it; plain text
  double drawn_width = 0;  // of the drawing's own coordinates; its height is kDrawnHeight
  std::string drawing;     // SVG elements
  Axis y;
  std::string marks;    // markup over the drawing, placed in percent; may be empty
  std::string beneath;  // markup under it: phases, or ticks of the x axis
  std::string format() const;
};

// Ticks of an x axis, for Plot::beneath; title: what it counts.
std::string x_ticks(const Axis& axis, std::string_view title);

// A coordinate, short: one digit after the point.
std::string coordinate(double value);

}  // namespace fathom::page
