#!/usr/bin/env python3
"""Draws what a report has data for, and says which plots it left out and why.

DIR is the folder of a sweep; its report.json is read, and every plot is written to DIR/plots as PNG and SVG. Needs
matplotlib, which scripts/setup.sh puts into .venv; that Python is used by itself when it is there.
"""

import sys

from plots.command import begin


def main():
    folder, report = begin("plot.py", __doc__, "matplotlib", "numpy")
    from plots.catalogue import draw_all

    drawn, left_out = draw_all(report, folder / "plots")
    for path in drawn.values():
        print(f"drew {path} and {path.with_suffix('.png').name}")
    for name, reason in left_out.items():
        print(f"left out {name}: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
