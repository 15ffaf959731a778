// Text on its way into a page: nothing that comes from a file can become markup or script.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace fathom::page {

// For text and for attributes in double quotes: & < > " ' as references, control characters and invalid UTF-8 as
// U+FFFD.
std::string escaped(std::string_view text);
// JSON for a <script type="application/json"> element: without "<", ">", "&" and line separators, so that it cannot end
// the element; invalid UTF-8 is replaced.
std::string script_json(const Json& value);
// "12.5": at most `decimals` digits after the point, zeros at the end left out. Not a number: "0".
std::string decimal(double value, int decimals);
// "12.34%" of a share from 0 to 1, for places and widths in style attributes.
std::string percent(double share);

// "optimizer states" of optimizer_states.
std::string title_of(std::string_view name);
// "1.50 GiB" of bytes as a file has them, which may be anything.
std::string bytes_text(double value);

inline constexpr const char* kNone = "—";

// A table of cells that are markup already.
struct HtmlTable {
  struct Column {
    std::string title;
    bool number = false;  // set to the right, digits of one width
  };
  // A narrow page sets tables of more columns as one small grid for each row, with the titles beside the figures.
  static constexpr size_t kColumnsOfNarrowPage = 3;
  std::string caption;  // for those who cannot see the figure beside it; may be empty
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> total;  // a last row, set apart; may be empty
  // Takes out the columns without a figure: those whose cells are all empty or kNone.
  void leave_out_empty_columns();
  std::string format() const;
};

}  // namespace fathom::page
