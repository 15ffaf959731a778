"""Chat templates that try to take long, much memory or the terminal: every method, filter and operator on large values."""

TEXTS = ("'a' * 10000000", "'a b ' * 3000000", "'\\n' * 10000000", "'é' * 5000000", "'\"&<' * 5000000", "'A' * 1000000 ~ 'b'", "' ' * 10000000")
METHODS = ("split()", "split('a')", "split(none, 3)", "split('a', 3)",
           "upper()", "lower()", "title()", "capitalize()", "strip()", "strip('ab')", "lstrip()", "rstrip(s)", "replace('a', 'b')", "replace('', 'b')",
           "startswith('a')", "endswith(s)", "format(s)")
FILTERS = ("title", "upper", "trim", "length", "reverse", "list | length", "string", "safe", "tojson", "indent", "replace('a', 'bb')", "first", "last",
           "unique | list", "sort | first", "join('x')", "map('upper') | list", "select('==', 'a') | list", "max", "int", "capitalize", "format(1)")
EXPRESSIONS = ("'b' in s", "s == t", "s < t", "s ~ t", "s[1:]", "s[::2]", "s[::-1]", "s[5000]", "s[-1]", "'x'.endswith(s)", "'x'[s]", "'%s%s' | format(s, s)", "{s: 1}",
               "[s, s] == [t, t]", "x[s]", "s.nothing", "s * 2", "range(100000) | list | length", "99999 in range(100000)",
               "range(100000) | max", "range(100000) | map('string') | join", "dict(a=s).a == t", "{s: 1} == {t: 1}", "[s] | tojson", "s | string | tojson", "strftime_now(s)")
REST = ("{{ raise_exception('\x1b]0;HOSTILE\x07' ~ '\u202e') }}", "{{ raise_exception('a' * 10000000) }}", "{{ '\x1b[2J' }}", "{{ messages[0]['\x1b[2J'].x }}",
        "{% for m in messages %}{{ m.content.nothing.more }}{% endfor %}", "{{ self }}", "{{ ''.__class__.__mro__ }}", "{{ cycler.__init__.__globals__ }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{{ " + "(" * 5000 + " }}", "{% if a %}" * 5000, "{% set ns = namespace(s='x') %}{% for i in range(99999) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% include '/etc/passwd' %}", "{% import 'os' %}", "{{ 2 ** 10000000 }}", "{{ 9 ** 9 ** 9 }}", "{{ 1 / 0 }}", "{{ 1 % 0 }}", "{{ range(10 ** 18) }}", "{{ 'a'.zfill(10 ** 9) }}",
        "{{ '%0999999999d' % 1 }}", "{{ '{:>999999999}'.format(1) }}", "{% raw %}", "{# open", "{{ \x00 }}", "{% generation %}" * 200, "\ud800", "{{ messages | map(attribute='a' * 1000000) | list }}")


def templates():
    """All of them, each once; in a loop, so that what a step does not weigh shows as time."""
    loop = "{{% set s = {text} %}}{{% set t = s ~ 'c' %}}{{% set x = {{'a': 1}} %}}{{% for i in range(99999) %}}{{{{ ({code}) is none }}}}{{% endfor %}}"
    for code in (*(f"s.{method}" for method in METHODS), *(f"s | {name}" for name in FILTERS), *EXPRESSIONS):
        for text in TEXTS:
            yield loop.format(text=text, code=code)
    yield from REST
