// Rows of text in, a table aligned for a terminal out; widths are those of UTF-8 text as a terminal shows it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::report {

// What a cell shows where there is no figure.
inline constexpr std::string_view kMissing = "—";

// Terminal columns that UTF-8 text takes: combining marks none, East Asian wide characters and emoji two, each byte
// that is not valid UTF-8 one.
int64_t display_width(std::string_view text);

// What a terminal has at least.
inline constexpr int64_t kTerminalWidth = 80;
// The text in lines of at most so many columns, broken at spaces; lines after the first begin with `indent`. A longer
// word has a line of its own. Newlines of the text stay.
std::string wrapped(std::string_view text, int64_t width = kTerminalWidth, std::string_view indent = "");

enum class Align { kLeft, kRight };

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };
  explicit Table(std::vector<Column> columns);
  // Takes one cell per column.
  void add_row(std::vector<std::string> cells);
  // A line across the table: above totals.
  void add_rule();
  // Title row, a line, then the rows; columns two spaces apart; no spaces at the ends of lines; newline at the end.
  std::string format() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty one is a line across
};

}  // namespace fathom::report
