// Tables: widths of UTF-8 text, alignment, rules, and refusal of rows that do not fit.
#include "report/table.h"

#include <gmock/gmock.h>
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

Table wide_table() {
  Table table({{.title = "rule", .align = Align::kLeft, .folds = true},
               {.title = "bytes"},
               {.title = "rounded", .gives_way = 2},
               {.title = "more", .gives_way = 1}});
  table.add_row({"training takes twenty times the weights", "1,024", "1.00 KiB", "x"});
  table.add_row({"short", "7", "7 B", "y"});
  return table;
}

TEST(Table, LeavesOutColumnsWhereItIsTooWide) {
  EXPECT_THAT(wide_table().format(80), ::testing::HasSubstr("bytes   rounded  more\n"));
  EXPECT_THAT(wide_table().format(57), ::testing::HasSubstr("bytes   rounded\n"));
  EXPECT_THAT(wide_table().format(47), ::testing::HasSubstr("bytes\n"));
  EXPECT_THAT(wide_table().format(0), ::testing::HasSubstr("more\n")) << "0: no limit";
}

TEST(Table, ThenFoldsCells) {
  EXPECT_EQ(wide_table().format(29),
            "rule                    bytes\n"
            "─────────────────────────────\n"
            "training takes twenty   1,024\n"
            "  times the weights\n"
            "short                       7\n");
}

TEST(Table, BreaksAWordThatIsTooWideForItsCell) {
  Table table({{.title = "name", .align = Align::kLeft, .folds = true}, {"n"}});
  table.add_row({"model.layers.漢字漢字.weight", "1"});
  EXPECT_EQ(table.format(18),
            "name             n\n"
            "──────────────────\n"
            "model.layers.    1\n"
            "  漢字漢字.\n"
            "  weight\n")
      << "between the parts of a name";
}

TEST(Folded, BreaksBetweenWordsAndIndentsWhatFollows) {
  EXPECT_EQ(folded("one two three four\nfive\n", 9), "one two\n  three\n  four\nfive\n");
  EXPECT_EQ(folded("  - one two three", 9), "  - one\n    two\n    three");
  EXPECT_EQ(folded("exactly 9", 9), "exactly 9");
  EXPECT_EQ(folded("a wordthatislong b", 6), "a\n  wordthatislong\n  b") << "a name can still be copied";
  EXPECT_EQ(folded("  --a  one two three", 12), "  --a  one\n    two\n    three") << "the gap is in the right half";
  EXPECT_EQ(folded("  --a  one two three", 14), "  --a  one two\n       three");
  EXPECT_EQ(folded("", 9), "");
  EXPECT_EQ(folded("\n\n", 9), "\n\n");
  EXPECT_EQ(folded("漢字 漢字 漢", 9), "漢字 漢字\n  漢");
}

TEST(Table, RefusesRowsOfAnotherSize) {
  Table table({{"a"}, {"b"}});
  EXPECT_THROW(table.add_row({"1"}), std::logic_error);
  EXPECT_THROW(table.add_row({}), std::logic_error);
}

}  // namespace
}  // namespace fathom::report
