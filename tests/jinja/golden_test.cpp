// Small templates against jinja2 in transformers' environment (golden.json, from scripts/golden/jinja.py).
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_value.h"
#include "jinja/template.h"

namespace fathom::jinja {
namespace {

// nullopt: it failed.
std::optional<std::string> outcome(const std::string& source, const Json& variables) {
  try {
    return Template(source, "template").render(variables).text;
  } catch (const Error& error) {
    EXPECT_TRUE(std::string_view(error.what()).starts_with("template:")) << error.what();
    return std::nullopt;
  }
}

TEST(Jinja, WritesWhatJinjaWrites) {
  const Json golden = read_json(std::string(FATHOM_SOURCE_DIR) + "/tests/jinja/golden.json");
  ASSERT_GT(golden.at("cases").size(), 570u);
  for (const Json& entry : golden.at("cases")) {
    const auto source = entry.at(0).get<std::string>();
    const auto text = outcome(source, golden.at("variables"));
    if (entry.at(1).is_null()) {
      EXPECT_EQ(text, std::nullopt) << source;
    } else {
      EXPECT_EQ(text.value_or("an error"), entry.at(1).get<std::string>()) << source;
    }
  }
}

}  // namespace
}  // namespace fathom::jinja
