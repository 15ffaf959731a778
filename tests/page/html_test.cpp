// Nothing that is put into a page can become markup or script.
#include "page/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_value.h"

namespace fathom::page {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Escaped, LeavesNoMarkup) {
  EXPECT_EQ(escaped(R"(<a href="x" title='y'>R&D</a>)"),
            "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;R&amp;D&lt;/a&gt;");
  EXPECT_EQ(escaped("2 × 8 tokens\n"), "2 × 8 tokens\n");
  EXPECT_EQ(escaped(std::string_view("a\0b\x1b[31m", 8)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD[31m");
  EXPECT_EQ(escaped("\xFF\xC3"), "\xEF\xBF\xBD\xEF\xBF\xBD") << "invalid UTF-8";
}

TEST(ScriptJson, CannotEndItsElement) {
  const Json value = {{"</script><script>alert(1)//", "<!--"}, {"line", "\xE2\x80\xA8"}};
  const std::string text = script_json(value);
  EXPECT_THAT(text, Not(HasSubstr("<")));
  EXPECT_THAT(text, Not(HasSubstr(">")));
  EXPECT_THAT(text, Not(HasSubstr("\xE2\x80\xA8")));
  EXPECT_EQ(Json::parse(text), value) << "the same value all the same";
  EXPECT_NO_THROW(Json::parse(script_json(Json("\xFF"))));
}

TEST(Decimal, IsShort) {
  EXPECT_EQ(decimal(1.5, 3), "1.5");
  EXPECT_EQ(decimal(2, 3), "2");
  EXPECT_EQ(decimal(-0.0001, 2), "0");
  EXPECT_EQ(decimal(1e300 * 1e300, 2), "0");
  EXPECT_EQ(percent(0.12345), "12.345%");
}

TEST(HtmlTable, AlignsNumbersAndNamesThemOnNarrowPages) {
  const HtmlTable table{.caption = "",
                        .columns = {{"a", false}, {"b", true}, {"c", true}, {"", true}},
                        .rows = {{"x", "1", "2", "3"}},
                        .total = {}};
  const std::string text = table.format();
  EXPECT_THAT(text, HasSubstr("<th scope=\"row\">x</th><td class=\"n\" data-title=\"b\">1</td>"));
  EXPECT_THAT(text, HasSubstr("<td class=\"n\">3</td></tr>"));
}

}  // namespace
}  // namespace fathom::page
