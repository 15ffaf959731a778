"""Remedies follow "; " in a message, so each begins in lower case and is no sentence with a full stop: reads them in lib/ and app/."""
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LITERAL = r'"(?:[^"\\]|\\.)*"'
NAMES = re.compile("LibTorch|Jinja|Hugging|Debian|Python|[A-Z][a-z]+[A-Z]")  # begin with a capital anywhere


def arguments(source, start):
    """The top-level arguments of the call whose bracket opens at `start`."""
    depth, begin, found, at = 0, start + 1, [], start
    while at < len(source):
        if source[at] in "\"'":
            literal = re.compile(LITERAL if source[at] == '"' else r"'(?:[^'\\]|\\.)+'").match(source, at)
            at = literal.end() if literal else at + 1
            continue
        depth += (source[at] in "([{") - (source[at] in ")]}")
        if depth == 0 or (depth == 1 and source[at] == ","):
            found.append(source[begin:at].strip())
            begin = at + 1
        if depth == 0:
            return found
        at += 1
    return found


def text_of(expression):
    """What an expression that begins with a literal begins with, literals side by side joined; None for another."""
    joined = re.match(rf"(?:std::string\()?((?:{LITERAL}\s*)+)", expression)
    return "".join(part[1:-1] for part in re.findall(LITERAL, joined.group(1))) if joined else None


def remedies(source):
    source = re.sub(r"(?m)^\s*//.*$", "", source)
    for call in re.finditer(r"\b\w*Error\(|\brefuse\w*\(|\bfail\(|\bMismatch\{|\bcreate_folders\(", source):
        given = arguments(source, call.end() - 1)
        if len(given) > 1:
            yield text_of(given[-1])
    for constant in re.finditer(rf"\b(?:k\w*Remedy\w*|remedy)(?:\[\])? = ((?:{LITERAL}\s*)+)", source):
        yield text_of(constant.group(1))
    for literal in re.finditer(rf"(?:{LITERAL}\s*)+", source):
        for after in re.findall(r"; ([A-Z][a-z]+ .*)", text_of(literal.group()) or ""):
            yield after


def complaints(source):
    for remedy in remedies(source):
        if not remedy or NAMES.match(remedy):
            continue
        if re.match(r"[A-Z][a-z]", remedy) or re.search(r"[a-z]\.$", remedy):
            yield remedy


class Remedies(unittest.TestCase):
    def test_all_are_written_alike(self):
        found = [f"{path.relative_to(ROOT)}: {remedy}" for folder in ("lib", "app")
                 for path in sorted((ROOT / folder).rglob("*.cpp")) for remedy in complaints(path.read_text("utf-8"))]
        self.assertEqual(found, [])

    def test_sees_each_kind(self):
        for source in ('throw Error(a + ": b(c", "Mend it");', 'throw UsageError("a", "mend it.");',
                       'line.fail("what",\n    "Mend"\n    " it" + x);', 'constexpr char kRemedy[] = "Mend it";',
                       'log_warning("too long; Raise it " + x);', 'return Mismatch{"a", "b", "Write c"};'):
            self.assertEqual(len(list(complaints(source))), 1, source)
        for source in ('throw Error("A text");', 'throw Error("a", "mend it");', '// Error("a", "Mend it")',
                       'throw Error("a", "INT8 is smaller");', 'throw Error("a", "LibTorch must be there");'):
            self.assertEqual(list(complaints(source)), [], source)


if __name__ == "__main__":
    sys.exit(unittest.main())
