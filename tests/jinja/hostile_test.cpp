// Mutated templates: every one is either rendered or refused with Error, within its steps and depth.
#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "jinja/template.h"

namespace fathom::jinja {
namespace {

constexpr std::string_view kPieces[] = {"{{",
                                        "}}",
                                        "{%",
                                        "%}",
                                        "{#",
                                        "#}",
                                        "{%-",
                                        "-%}",
                                        "+%}",
                                        "{{-",
                                        "-}}",
                                        "{% if x %}",
                                        "{% else %}",
                                        "{% endif %}",
                                        "{% for x in xs %}",
                                        "{% endfor %}",
                                        "{% set ns.a = ns %}",
                                        "{% set ns = namespace() %}",
                                        "{% macro m(a) %}",
                                        "{% endmacro %}",
                                        "m(m)",
                                        "{% generation %}",
                                        "{% endgeneration %}",
                                        "{% call m() %}",
                                        "{% call(a) m(a) %}",
                                        "{% endcall %}",
                                        "caller()",
                                        "(*xs)",
                                        "(**deep)",
                                        "|safe",
                                        "|e",
                                        " + ",
                                        "{% filter trim %}",
                                        "{% endfilter %}",
                                        "{% break %}",
                                        " | list",
                                        "|map('string')",
                                        "|tojson",
                                        "|sort",
                                        "|join",
                                        "|unique",
                                        "[::-1]",
                                        "[1:",
                                        ".a",
                                        "[0]",
                                        "(",
                                        ")",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        "'",
                                        "\"",
                                        "\\",
                                        "~",
                                        " * 99999999",
                                        "%",
                                        "range(99999)",
                                        "loop",
                                        "loop.length",
                                        "ns",
                                        "messages",
                                        " in ",
                                        " is ",
                                        " not ",
                                        "none",
                                        "1e999",
                                        "0x",
                                        "\xFF",
                                        "é",
                                        "\u3000",
                                        "\n",
                                        "-",
                                        "9223372036854775807",
                                        "%s",
                                        "{}",
                                        ".format(",
                                        ".split("};

bool is_told_or_rendered(const std::string& source, const Json& variables) {
  Limits limits;
  limits.steps = 200'000;
  limits.bytes = 4 << 20;
  try {
    Template(source, "t").render(variables, limits);
  } catch (const Error& error) {
    return std::string_view(error.what()).starts_with("t:");
  }
  return true;
}

TEST(HostileJinja, MutationsNeverCrashOrHang) {
  const Json golden = read_json(std::string(FATHOM_SOURCE_DIR) + "/tests/jinja/golden.json");
  std::vector<std::string> seeds;
  for (const Json& entry : golden.at("cases")) seeds.push_back(entry.at(0).get<std::string>());
  std::mt19937 random(20240607);
  const auto below = [&](size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random); };
  const std::clock_t start = std::clock();  // of the processor, which tests share
  for (int round = 0; round < 20000; ++round) {
    std::string source = seeds[below(seeds.size())] + seeds[below(seeds.size())];
    for (size_t edits = 1 + below(6); edits > 0; --edits) {
      const size_t at = below(source.size() + 1);
      switch (below(4)) {
        case 0:
          source.insert(at, kPieces[below(std::size(kPieces))]);
          break;
        case 1:
          source.erase(at, below(8));
          break;
        case 2:
          if (at < source.size()) source[at] = static_cast<char>(below(256));
          break;
        default:
          source.insert(at, source.substr(below(source.size() + 1), below(40)));
      }
    }
    ASSERT_TRUE(is_told_or_rendered(source, golden.at("variables"))) << source;
  }
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 300);
}

TEST(HostileJinja, RepeatedPiecesEndSoon) {
  for (const std::string_view piece : kPieces) {
    for (const std::string before : {"", "{{ ", "{% if ", "{% set x = '", "{# ", "{% raw %}"}) {
      std::string source = before;
      while (source.size() < 200'000) source += piece;
      const std::clock_t start = std::clock();  // of the processor, which tests share
      EXPECT_TRUE(is_told_or_rendered(source, Json::object())) << before << piece;
      const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      EXPECT_LT(seconds, 10) << before << piece;
    }
  }
}

}  // namespace
}  // namespace fathom::jinja
