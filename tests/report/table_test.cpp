// Tables: widths of UTF-8 text, alignment, rules, and refusal of rows that do not fit.
#include "report/table.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace fathom::report {
namespace {

TEST(DisplayWidth, CountsWhatATerminalShows) {
  EXPECT_EQ(display_width(""), 0);
  EXPECT_EQ(display_width("peak"), 4);
  EXPECT_EQ(display_width("—"), 1);               // three bytes
  EXPECT_EQ(display_width("e\u0301t\u00e9"), 3);  // a combining accent takes no column
  EXPECT_EQ(display_width("漢字"), 4);
  EXPECT_EQ(display_width("\xff\xe2\x80"), 3);  // broken UTF-8: a column for each byte
}

TEST(Table, AlignsByWidthAndNotByBytes) {
  Table table({{"component", Align::kLeft}, {"analytic"}, {"measured"}, {"note", Align::kLeft}});
  table.add_row({"weights", "1,024", "—", "漢"});
  table.add_row({"activations", "12", "7", "x"});
  table.add_rule();
  table.add_row({"total", "1,036", "7", ""});
  EXPECT_EQ(table.format(),
            "component    analytic  measured  note\n"
            "─────────────────────────────────────\n"
            "weights         1,024         —  漢\n"
            "activations        12         7  x\n"
            "─────────────────────────────────────\n"
            "total           1,036         7\n");
}

TEST(Table, RefusesRowsOfAnotherSize) {
  Table table({{"a"}, {"b"}});
  EXPECT_THROW(table.add_row({"1"}), std::logic_error);
  EXPECT_THROW(table.add_row({}), std::logic_error);
}

}  // namespace
}  // namespace fathom::report
