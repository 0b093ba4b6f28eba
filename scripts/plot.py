#!/usr/bin/env python3
"""Draws what a report has data for, and says which plots it left out and why.

DIR is the folder of a sweep; its report.json is read, and every plot is written to DIR/plots as PNG and SVG. Needs
matplotlib, which scripts/setup.sh puts into .venv; that Python is used by itself when it is there.
"""

import argparse
import sys

from plots import environment
from plots.report_data import BadReport, read_report


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: scripts/plot.py results/local/first")
    parser.add_argument("folder", metavar="DIR", help="a sweep's folder, with report.json in it")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    try:
        report = read_report(arguments.folder)
    except BadReport as error:
        print(f"plot.py: {error}", file=sys.stderr)
        return 2
    environment.use_venv()
    environment.require("plot.py", "matplotlib", "numpy")
    from plots.catalogue import draw_all

    drawn, left_out = draw_all(report, f"{arguments.folder}/plots")
    for path in drawn.values():
        print(f"drew {path} and {path.with_suffix('.png').name}")
    for name, reason in left_out.items():
        print(f"left out {name}: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
