#!/usr/bin/env python3
"""Writes the tables of model/tokenizer/nfc.cpp: what Unicode's composition (NFC) needs, from Python's unicodedata.

Standard library only. Run it again only to move to another version of Unicode.
"""

import pathlib
import unicodedata

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "model" / "tokenizer"
HANGUL = range(0xAC00, 0xD7A4)  # composed by arithmetic, not by table
WIDTH = 120


def code_points():
    return (code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF and code not in HANGUL)


def decompositions():
    """(code, first, second, composes): one canonical step; second is 0 for a single character."""
    for code in code_points():
        spelled = unicodedata.decomposition(chr(code))
        if not spelled or spelled.startswith("<"):
            continue
        parts = [int(part, 16) for part in spelled.split()]
        composes = unicodedata.normalize("NFC", chr(code)) == chr(code)
        yield code, parts[0], parts[1] if len(parts) == 2 else 0, int(composes)


def class_ranges():
    """(first, last, class) of neighbours with the same combining class, class 0 left out."""
    ranges = []
    for code in code_points():
        combining = unicodedata.combining(chr(code))
        if combining == 0:
            continue
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == combining:
            ranges[-1][1] = code
        else:
            ranges.append([code, code, combining])
    return ranges


def table(rows):
    lines, line = [], "   "
    for row in rows:
        entry = " {" + ",".join([*(f"0x{value:X}" for value in row[:-1]), str(row[-1])]) + "},"
        if len(line) + len(entry) > WIDTH:
            lines.append(line)
            line = "   "
        line += entry
    return "\n".join(lines + [line])


def write_table(path, declaration, rows):
    path.write_text(f"""// Unicode {unicodedata.unidata_version}, written by scripts/make_nfc_tables.py: do not edit.
#include "model/tokenizer/nfc_tables.h"

namespace kvlab {{

// clang-format off
const {declaration} = {{{{
{table(rows)}
}}}};
// clang-format on

}}  // namespace kvlab
""", encoding="ascii")


def write_header(path, declarations):
    path.write_text(f"""// What composing must know of Unicode {unicodedata.unidata_version}; written by scripts/make_nfc_tables.py: do not edit.
#pragma once

#include <array>
#include <cstdint>

namespace kvlab {{

/// One canonical step from a character to one or two others; Hangul syllables are left to arithmetic.
struct Decomposition {{
  char32_t code;
  char32_t first;
  char32_t second;  // 0: a single character
  bool composes;    // first and second are put together again
}};

/// Neighbours with the same combining class, none of class 0.
struct CombiningRange {{
  char32_t first;
  char32_t last;
  std::uint8_t combining_class;
}};

// Both ascending.
extern const {declarations[0]};
extern const {declarations[1]};

}}  // namespace kvlab
""", encoding="ascii")


def main():
    parts = list(decompositions())
    ranges = class_ranges()
    declarations = [f"std::array<Decomposition, {len(parts)}> kDecompositions",
                    f"std::array<CombiningRange, {len(ranges)}> kCombiningRanges"]
    write_header(FOLDER / "nfc_tables.h", declarations)
    write_table(FOLDER / "nfc_decompositions.cpp", declarations[0], parts)
    write_table(FOLDER / "nfc_combining_ranges.cpp", declarations[1], ranges)


if __name__ == "__main__":
    main()
