#!/usr/bin/env python3
"""Writes lib/jinja/special_casing.h: letters whose upper or title case is several letters, as Python's str has them.

Also the digits that are no decimals, for str.isdigit. Made by Python 3.11 (Unicode 14); other mappings are utf8proc's.
"""

import itertools
import pathlib

TARGET = pathlib.Path(__file__).resolve().parents[2] / "lib" / "jinja" / "special_casing.h"
HEADER = """\
// Letters whose upper or title case is several letters, and digits that are no decimals. Made by
// scripts/golden/special_casing.py.
#pragma once

#include <string_view>

namespace fathom::jinja {

struct SpecialCase {
  char32_t letter;
  std::string_view upper, title;  // empty: one letter, utf8proc's
};
constexpr SpecialCase kSpecialCases[] = {"""
CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def literal(text):
    return '"' + "".join(f"\\x{byte:02X}" for byte in text.encode()) + '"'


def several(text):
    return literal(text) if len(text) > 1 else '""'


def main():
    lines = [HEADER]
    lines += [f"    {{0x{ord(c):04X}, {several(c.upper())}, {several(c.title())}}}," for c in CHARACTERS
              if len(c.upper()) > 1 or len(c.title()) > 1]
    lines += ["};", "", "// Digits that are no decimals, as ranges with both ends.", "constexpr char32_t kOtherDigits[][2] = {"]
    digits = [ord(c) for c in CHARACTERS if c.isdigit() and not c.isdecimal()]
    for _, run in itertools.groupby(enumerate(digits), lambda pair: pair[1] - pair[0]):
        codes = [code for _, code in run]
        lines.append(f"    {{0x{codes[0]:04X}, 0x{codes[-1]:04X}}},")
    TARGET.write_text("\n".join(lines + ["};", "", "}  // namespace fathom::jinja", ""]))


main()
