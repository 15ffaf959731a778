#!/usr/bin/env python3
"""Numbers that README and docs quote of a page are those of the page, and a page is made by a program of a commit.

A link whose text holds numbers quotes them: they stand together on a line of the page that it leads to. And each number of
a thousand or more in a paragraph or row of a table that links to a page of benchmarks/ stands on one of those pages.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+\.md)(?:#[^)\s]*)?\)")
NUMBER = re.compile(r"(?<![\w,.])\d+(?:,\d{3})*(?:\.\d+)?(?![\w]|[,.]\d)")
LARGE = re.compile(r"(?<![\w,.])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w]|[,.]\d)")


def paragraphs(text):
    """Rows of tables and points of lists are paragraphs of their own; blocks of code are none."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return re.split(r"\n\s*\n|\n(?=\||- )", text)


def lines_of(page, known={}):
    """The numbers of each line."""
    if page not in known:
        known[page] = [set(NUMBER.findall(line)) for line in page.read_text().splitlines()]
    return known[page]


def wrong_in(page, text):
    wrong, quoted = [], 0
    for paragraph in paragraphs(text):
        pages = []
        for words, target in LINK.findall(paragraph):
            linked = (page.parent / target).resolve()
            if not linked.exists():
                wrong.append(f"there is no {target}")
                continue
            if linked.parent == ROOT / "benchmarks":
                pages.append(linked)
            numbers = set(NUMBER.findall(words))
            quoted += len(numbers)
            if not any(numbers <= line for line in lines_of(linked)):
                wrong.append(f"[{words}]: {target} has no line with {sorted(numbers)}")
        told = LINK.sub(" ", paragraph)
        for number in LARGE.findall(told) if pages else []:
            quoted += 1
            if not any(number in line for each in pages for line in lines_of(each)):
                wrong.append(f"'{paragraph.strip()[:50]}': {number} is on none of {[each.name for each in pages]}")
    return wrong, quoted


def main():
    sample = ROOT / "docs/sample.md"
    page = "../benchmarks/memory-matrix.md"
    number = next(iter(sorted(LARGE.findall((ROOT / "benchmarks/memory-matrix.md").read_text()))))
    assert wrong_in(sample, f"[{number} events]({page}), {number}") == ([], 2)
    assert len(wrong_in(sample, f"[99,999,999 events]({page})")[0]) == 1
    assert len(wrong_in(sample, f"of 99,999,999 events ([page]({page}))")[0]) == 1
    assert wrong_in(sample, f"of 99,999,999 events\n\n[page]({page})")[0] == []
    wrong, quoted = [], 0
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        told, count = wrong_in(page, page.read_text())
        wrong += [f"{page.name}: {each}" for each in told]
        quoted += count
    for page in sorted((ROOT / "benchmarks").glob("*.md")):
        if re.search(r"^Program: .*changes", page.read_text(encoding="utf-8"), re.M):
            wrong.append(f"{page.name}: made by a program with changes that are in no commit")
    print(*wrong, f"{quoted} numbers are quoted; {len(wrong)} faults", sep="\n")
    return bool(wrong) or quoted < 20


if __name__ == "__main__":
    sys.exit(main())
