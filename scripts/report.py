#!/usr/bin/env python3
"""Writes DIR/report.html: one page with the tables, the plots, the warnings and the machine of DIR/report.json.

The page holds all that it shows, so it can be sent as one file. The plots are drawn into DIR/plots on the way. Needs
matplotlib and Jinja2, which scripts/setup.sh puts into .venv; that Python is used by itself when it is there.
"""

import argparse
import os
import sys
from pathlib import Path

from plots import environment
from plots.report_data import BadReport, read_report


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: scripts/report.py results/local/first")
    parser.add_argument("folder", metavar="DIR", help="a sweep's folder, with report.json in it")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    try:
        report = read_report(arguments.folder)
    except BadReport as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 2
    environment.use_venv()
    environment.require("report.py", "matplotlib", "numpy", "jinja2")
    from plots.catalogue import draw_all
    from plots.page import render

    folder = Path(arguments.folder)
    drawn, left_out = draw_all(report, folder / "plots")
    page = folder / "report.html"
    unfinished = page.with_suffix(".html.tmp")
    unfinished.write_text(render(report, drawn, left_out), encoding="utf-8")
    os.replace(unfinished, page)
    print(f"wrote {page}")
    for name, reason in left_out.items():
        print(f"left out {name}: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
