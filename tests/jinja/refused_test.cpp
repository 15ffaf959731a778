// What Jinja has and no chat template is known to use: each is refused by its name, and never rendered differently.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_value.h"
#include "jinja/template.h"

namespace fathom::jinja {
namespace {

struct Refusal {
  const char* source;
  const char* message;  // behind "t:LINE: "
};

constexpr Refusal kOfTags[] = {
    {"{% include 'x' %}", "the tag 'include' is not supported in chat templates"},
    {"{% set caller = 1 %}", "an own variable 'caller' is not supported in chat templates"},
    {"{% set ns = namespace() %}{% macro m() %}{% set ns.c = caller %}{% endmacro %}{% call m() %}{% endcall %}{{ "
     "ns.c() "
     "}}",
     "a caller that is called behind its block is not supported"},
    {"{%- raw %}{{ x }}{% endraw %}", "the tag 'raw' is not supported in chat templates"},
    {"{% for x in xs recursive %}{% endfor %}", "recursive loops are not supported"},
    {"{% for x in xs %}{% macro m() %}{% endmacro %}{% endfor %}",
     "a macro inside a loop, macro or block is not supported"},
};

constexpr Refusal kOfExpressions[] = {
    {"{{ cycler(1) }}", "'cycler' is not supported in chat templates"},
    {"{{ range(**[]) }}", "expected a mapping behind **, got a value of type list"},
    {"{{ dict(**{1: 2}) }}", "expected strings as the keys of a mapping behind **, got a value of type int"},
    {"{{ 2 ** 10 }}", "the operator ** is not supported in chat templates"},
    {"{{ 'x' % [] }}", "format: not all arguments have a field in the text"},
    {"{{ 7.5 // 2 }}", "// of numbers with a point is not supported"},
    {"{{ 7.5 % 2 }}", "% of numbers with a point is not supported"},
    {"{{ [1] * 3 }}", "unsupported operand types for *: list and int"},
    {"{{ [1] < [2] }}", "the order of values of types list and list is not supported"},
    {"{{ 1 < 2 < 3 }}", "comparisons in a chain are not supported"},
    {"{{ xs[1, 2] }}", "several subscripts are not supported"},
    {"{{ 0x1F }}", "numbers such as 0x1F, 1_000 and 007 are not supported, nor names that begin with a digit"},
    {"{{ 1_000 }}", "numbers such as 0x1F, 1_000 and 007 are not supported, nor names that begin with a digit"},
    {"{{ '\\0' }}", "this escape after a \\ is not supported, but \\n, \\x41, \\u00e9 and the like are"},
    {"{{ '\\N{BULLET}' }}", "this escape after a \\ is not supported, but \\n, \\x41, \\u00e9 and the like are"},
    {"{{ {[1]: 2} }}", "expected a value that can be a key, got a value of type list"},
};

constexpr Refusal kOfTexts[] = {
    {"{{ range(3) }}", "the text of a value of type range is not supported"},
    {"{{ {}.items() }}", "the text of a value of type dict view is not supported"},
    {"{{ namespace(a=1) }}", "the text of a value of type Namespace is not supported"},
    {"{{ {}.keys() == {}.keys() }}", "comparing keys(), values() or items() is not supported"},
    {"{{ 'straße'.upper() }}", "the case of the letter ß cannot be changed alone, which is not supported"},
    {"{{ 'ﬁn' | title }}", "the case of the letter ﬁ cannot be changed alone, which is not supported"},
    {"{{ 'ΟΔΟΣ' | lower }}", "the case of the letter Σ cannot be changed alone, which is not supported"},
    {"{{ 'İ' | lower }}", "the case of the letter İ cannot be changed alone, which is not supported"},
    {"{{ '%5.1f' | format(1) }}", "format: the field '%5.1f' is not supported, but %s, %d, %02d and %.2f are"},
    {"{{ '%-5s' | format(1) }}", "format: the field '%-' is not supported, but %s, %d, %02d and %.2f are"},
    {"{{ '%(a)s' | format(a=1) }}", "format: arguments with names are not supported"},
    {"{{ '{:>5}'.format(1) }}", "format: a field other than {}, such as {0}, {name} or {:>5}, is not supported"},
    {"{{ '{0}'.format(1) }}", "format: a field other than {}, such as {0}, {name} or {:>5}, is not supported"},
};

constexpr Refusal kOfNames[] = {
    {"{{ xs | groupby('a') }}", "the filter 'groupby' is not supported in chat templates"},
    {"{{ -5 | abs }}", "the filter 'abs' is not supported in chat templates"},
    {"{{ 2.5 | round }}", "the filter 'round' is not supported in chat templates"},
    {"{{ 'inf' | float }}", "float: 'inf' is not supported"},
    {"{{ xs | sum }}", "the filter 'sum' is not supported in chat templates"},
    {"{{ 'a' | urlencode }}", "the filter 'urlencode' is not supported in chat templates"},
    {"{{ 'a' | center(5) }}", "the filter 'center' is not supported in chat templates"},
    {"{{ xs | nosuch }}", "No filter named 'nosuch'."},
    {"{{ xs | nosuch if xs else 1 }}", "No filter named 'nosuch'."},
    {"{{ 1 is callable }}", "the test 'callable' is not supported in chat templates"},
    {"{{ none is sameas none }}", "the test 'sameas' is not supported in chat templates"},
    {"{{ 'a' is lower }}", "the test 'lower' is not supported in chat templates"},
    {"{{ 1 is nosuch }}", "No test named 'nosuch'."},
    {"{{ 'a'.zfill(3) }}", "the method 'zfill' of strings is not supported"},
    {"{{ 'a b'.rsplit() }}", "the method 'rsplit' of strings is not supported"},
    {"{{ 'a'.isdigit() }}", "the method 'isdigit' of strings is not supported"},
    {"{{ 'a'.partition(' ') }}", "the method 'partition' of strings is not supported"},
    {"{{ 'a'.find('a') }}", "the method 'find' of strings is not supported"},
    {"{{ 'a'.join([]) }}", "the method 'join' of strings is not supported"},
    {"{{ 'a'.splitlines() }}", "the method 'splitlines' of strings is not supported"},
    {"{{ [1].count(1) }}", "the method 'count' of lists is not supported"},
    {"{{ (1,).index(1) }}", "the method 'index' of tuples is not supported"},
    {"{{ {}.fromkeys([]) }}", "the method 'fromkeys' of mappings is not supported"},
};

constexpr Refusal kOfArguments[] = {
    {"{{ 'a'.startswith('a', 1) }}", "startswith: more than 1 arguments are not supported, got 2"},
    {"{{ [] | sort(attribute='a,b') }}", "sort: several attributes are not supported"},
    {"{{ '1_0' | int }}", "'1_0': digits with _ are not supported"},
    {"{{ '1' | int(0, 16) }}", "int: more than 1 arguments are not supported, got 2"},
    {"{{ dict([['a', 1]]) }}", "dict: arguments without names are not supported"},
    {"{{ namespace({}) }}", "namespace: arguments without names are not supported"},
    {"{{ {} | dictsort(false, 'value') }}", "dictsort: arguments are not supported"},
    {"{{ [] | unique(case_sensitive=true) }}", "unique: the keyword argument 'case_sensitive' is not supported"},
    {"{{ [] | max(attribute='a') }}", "max: the keyword argument 'attribute' is not supported"},
    {"{{ [] | join(', ', attribute='a') }}", "join: the keyword argument 'attribute' is not supported"},
    {"{{ [] | map(attribute='a', default=1) }}", "map: the keyword argument 'default' is not supported"},
    {"{{ [{}] | map(attribute='a.0') | list }}", "the attribute 'a.0': places in lists are not supported"},
    {"{{ 'a' | indent(2, blank=true) }}", "indent: blank=true is not supported"},
    {"{% for x in [1] %}{{ loop.depth }}{% endfor %}", "loop.depth is not supported"},
    {"{% for x in [1] %}{{ loop.changed(x) }}{% endfor %}", "the method 'changed' of loops is not supported"},
    {"{% for x in [1] if x %}{{ loop.length }}{% endfor %}",
     "loop.length over items that a filter or condition chooses is not supported"},
};

template <size_t count>
void expect_refused(const Refusal (&refusals)[count]) {
  for (const Refusal& refusal : refusals) {
    std::string message = "rendered";
    try {
      Template(std::string("\n") + refusal.source, "t").render(Json::object());
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_EQ(message, std::string("t:2: ") + refusal.message) << refusal.source;
  }
}

TEST(JinjaRefuses, Tags) { expect_refused(kOfTags); }
TEST(JinjaRefuses, Expressions) { expect_refused(kOfExpressions); }
TEST(JinjaRefuses, Texts) { expect_refused(kOfTexts); }
TEST(JinjaRefuses, FiltersTestsAndMethods) { expect_refused(kOfNames); }
TEST(JinjaRefuses, Arguments) { expect_refused(kOfArguments); }

}  // namespace
}  // namespace fathom::jinja
