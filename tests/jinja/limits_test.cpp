// What a template must not do: take long, make long texts, go deep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "base/error.h"
#include "base/json_value.h"
#include "jinja/template.h"

namespace fathom::jinja {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string failure(const std::string& source, const Json& variables = Json::object()) {
  try {
    Template(source, "t.jinja").render(variables);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string repeated(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

TEST(JinjaLimits, EndTemplatesThatNeverWould) {
  const std::string loop = "{% for a in range(100000) %}";
  const std::string hostile[] = {
      loop + loop + "{{ a }}{% endfor %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
      "{{ 'a' * 10000000000 }}",
      "{{ 'a' * 9223372036854775807 }}",
      "{{ [1] * 10000000000 }}",
      loop + "{{ range(100000) is none }}{% endfor %}",
      "{% set ns = namespace(s='x') %}" + loop + "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "{% set ns = namespace(s=[1]) %}" + loop + "{% set ns.s = [ns.s] %}{% endfor %}",
      "{% set ns = namespace(s=[1]) %}" + loop +
          "{% set ns.s = [ns.s, ns.s] %}{% if loop.index > 60 %}{{ ns.s }}{% endif %}{% endfor %}",
      "{% set ns = namespace(s=[1], t=[1]) %}{% for a in range(60) %}{% set ns.s = [ns.s, ns.s] %}"
      "{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}",
      "{% set ns = namespace(s=(1,)) %}{% for a in range(60) %}{% set ns.s = (ns.s, ns.s) %}{% endfor %}{{ {ns.s: 1} "
      "}}",
      "{% set ns = namespace(s=[1]) %}{% for a in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s|tojson "
      "}}",
      "{% set ns = namespace() %}{% set ns.self = ns %}{{ ns }}",
      "{% set ns = namespace(g=[1]) %}" + loop + "{% set ns.g = ns.g|map('string') %}{% endfor %}{{ ns.g|list }}",
      "{% set ns = namespace(g=[1]) %}" + loop + "{% set ns.g = [1]|map('default', ns.g) %}{% endfor %}",
      loop + "{{ 'ab' * 100 }}{% endfor %}" + loop + "{{ 'a' * 10000 }}{% endfor %}",
      "{% set s = 'a' * 1000000 %}{% set t = 'a' * 500000 ~ 'b' %}" + loop +
          "{{ t in s }}{{ s.split(t) | length }}{% endfor %}",
      "{% set s = 'a' * 10000000 %}" + loop + "{{ s.split('a') | length }}{% endfor %}",
      "{% set s = 'a ' * 5000000 %}" + loop + "{{ (s | title) is none }}{% endfor %}",
      "{% set s = 'a' * 10000000 %}" + loop + "{{ s.lower() is none }}{% endfor %}",
      "{% set s = 'A' * 1000000 ~ 'b' %}" + loop + "{{ s.rstrip(s) is none }}{% endfor %}",
      "{% set s = '\\n' * 30000000 %}{{ s | indent | length }}" + loop + "{{ s.split() | length }}{% endfor %}",
      "{% set s = 'a' * 30000000 %}" + loop + "{{ 'x'[s] is none }}{{ 'x'.endswith(s) }}{% endfor %}",
      "{% set s = '\"' * 20000000 %}" + loop +
          "{{ (s | tojson) is none }}{{ s.split('\"') is none }}{{ [s] }}{% endfor %}",
      "{% set x = {'a' * 10000000: 1} %}" + loop + "{{ x | items | list | length }}{{ x == x }}{% endfor %}",
      "{% macro m() %}{{ caller() }}{% endmacro %}" + repeated("{% call m() %}", 90) + repeated("{% endcall %}", 90) +
          loop + "{% call m() %}" + loop + "{% call m() %}{% endcall %}{% endfor %}{% endcall %}{% endfor %}",
      "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{% call m() %}{% endcall %}",
      "{% macro m(c) %}{% call m(caller) %}{{ caller }}{% endcall %}{{ c() }}{% endmacro %}{% call m() %}{% endcall %}",
      "{% set xs = range(100000) | list %}{% macro m() %}{% endmacro %}" + loop + "{{ dict(*xs) }}{% endfor %}",
      "{% set xs = range(100000) | list %}" + loop + "{{ '' | join(*xs) }}{% endfor %}",
      "{% set ns = namespace(d={}) %}" + loop + "{% set ns.d = dict(**ns.d, **{}) %}{% endfor %}",
      "{% set ns = namespace(d=dict(a=1)) %}" + loop + "{{ dict(b=1, **ns.d) is none }}{% endfor %}" + loop +
          "{{ dict(b=1, **ns.d) is none }}{% endfor %}" + loop + "{{ dict(b=1, **ns.d) is none }}{% endfor %}",
      "{% set ns = namespace(s='<'|safe) %}" + loop + "{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(s='<') %}" + loop + "{% set ns.s = ns.s | forceescape %}{% endfor %}",
      "{% set s = '<' * 5000000 %}" + loop + "{{ (('%s' | safe) % s) is none }}{{ (s | e) is none }}{% endfor %}",
      "{{ ('<'|safe) * 10000000000 }}",
      "{{ '%s' % ('a' * 100000000 % 1) }}",
      "{{ '%1000000000d' | format(1) }}",
      "{{ '{:1000000000}'.format(1) }}",
      "{{ 'a' | indent(1000000000) }}",
      "{{ range(1000000000) }}",
      "{{ 9223372036854775807 + 1 }}",
      "{{ -(-9223372036854775807 - 1) }}",
      "{{ (-9223372036854775807 - 1) // -1 }}",
      "{{ strftime_now('%1000000Y') }}"};
  for (const std::string& source : hostile) {
    const std::clock_t start = std::clock();  // of the processor, which tests share
    EXPECT_THAT(failure(source), HasSubstr("t.jinja:1: ")) << source;
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, 10) << source;
  }
}

TEST(JinjaLimits, WeighTextsThatAreReadLetterByLetter) {
  Limits few;
  few.steps = 300'000;
  const auto weighed = [&](const std::string& filter) {
    try {
      Template("{{ s | " + filter + " }}", "t").render({{"s", std::string(1'000'000, '\n')}}, few);
    } catch (const Error& error) {
      return std::string_view(error.what()).find("steps") != std::string_view::npos;
    }
    return false;
  };
  for (const char* filter : {"int", "tojson", "upper", "title"}) EXPECT_TRUE(weighed(filter)) << filter;
  EXPECT_FALSE(weighed("length"));
}

TEST(JinjaLimits, RefuseDeepSyntax) {
  for (const auto& [open, inside, close] : {std::tuple{"(", "1", ")"},
                                            {"[", "", "]"},
                                            {"{'a': ", "1", "}"},
                                            {"not ", "1", ""},
                                            {"-", "1", ""},
                                            {"", "1", " + 1"},
                                            {"", "a", ".a"},
                                            {"", "a", "|upper"},
                                            {"", "a", "()"},
                                            {"1 if a else ", "1", ""},
                                            {"f(", "", ")"}}) {
    const std::string source = "{{ " + repeated(open, 50000) + inside + repeated(close, 50000) + " }}";
    EXPECT_THAT(failure(source), AnyOf(HasSubstr("levels"), HasSubstr("parts"))) << open << inside << close;
  }
  EXPECT_THAT(failure(repeated("{% if a %}", 20000)), HasSubstr("levels"));
  EXPECT_THAT(failure("{% set " + repeated("(", 20000) + "a" + repeated(")", 20000) + " = 1 %}"), HasSubstr("levels"));
  EXPECT_THAT(failure(std::string(size_t{1} << 21, 'x')), HasSubstr("larger"));
}

TEST(JinjaLimits, RefuseWhatIsNotUtf8) {
  EXPECT_THAT(failure("a\nb{{ '\xEE\x80' | trim }}"), HasSubstr("t.jinja:2: the template is not UTF-8"));
  EXPECT_THAT(failure("{{ s | trim }}", {{"s", "\x80\x80\x80\x80\x80"}}),
              HasSubstr("t.jinja:1: the conversation holds a text that is not UTF-8"));
  EXPECT_THAT(failure("{{ s }}", {{"s", {{"\xFF", 1}}}}), HasSubstr("is not UTF-8"));
}

TEST(JinjaLimits, SayWhereAndWhat) {
  EXPECT_EQ(failure("a\n{{ raise_exception('roles must\nalternate') }}"), "t.jinja:2: roles must\nalternate");
  EXPECT_EQ(failure("{{ nobody.there }}"), "t.jinja:1: 'nobody' is undefined");
  EXPECT_EQ(failure("{% if a %}"), "t.jinja:1: Unexpected end of template. Jinja was looking for the tag 'endif'");
  EXPECT_EQ(failure("{{ 5.x.y }}").substr(0, 10), "t.jinja:1:");
  EXPECT_EQ(failure("{{ a }}", {{"a", 18446744073709551615u}}),
            "t.jinja:1: 18446744073709551615: integers beyond 64 bits are not supported");
}

TEST(JinjaLimits, AllowLongConversations) {
  Json messages = Json::array();
  for (int i = 0; i < 2000; ++i)
    messages.push_back({{"role", i % 2 ? "assistant" : "user"}, {"content", std::string(5000, 'x')}});
  const Template chat("{% for m in messages %}{{ '<|' ~ m.role ~ '|>' + m['content'] | trim }}{% endfor %}", "t");
  EXPECT_GT(chat.render({{"messages", messages}}).text.size(), 10'000'000u);
}

}  // namespace
}  // namespace fathom::jinja
