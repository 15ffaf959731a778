// Rows of text in, a table aligned for a terminal out; widths are those of UTF-8 text as a terminal shows it. What is
// printed fits a terminal of kTerminalColumns: tables by leaving out columns and folding cells, prose by folding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::report {

inline constexpr int64_t kTerminalColumns = 80;

// What a cell shows where there is no figure.
inline constexpr std::string_view kMissing = "—";

// Terminal columns that UTF-8 text takes: combining marks none, East Asian wide characters and emoji two, each byte
// that is not valid UTF-8 one.
int64_t display_width(std::string_view text);

// Prose for a terminal: each line that is wider is folded between words. Its further lines begin where its text does
// after a gap of two blanks or more in its left half, as in a list of options, else two columns further in than it.
// Tables that fit, and words without a blank, stay as they are.
std::string folded(std::string_view text, int64_t columns = kTerminalColumns);

enum class Align { kLeft, kRight };

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::kRight;
    int gives_way = 0;   // order of leaving where the table is too wide; 0: stays
    bool folds = false;  // where it still is, cells of this column take several lines
  };
  explicit Table(std::vector<Column> columns);
  // Takes one cell per column.
  void add_row(std::vector<std::string> cells);
  // A line across the table: above totals.
  void add_rule();
  // Title row, a line, then the rows; columns two spaces apart; no spaces at the ends of lines; newline at the end.
  // columns: of the terminal; 0: no limit.
  std::string format(int64_t columns = kTerminalColumns) const;

 private:
  struct Shown {
    size_t column;
    int64_t width;
  };
  std::vector<Shown> fitted(int64_t columns) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty one is a line across
};

}  // namespace fathom::report
