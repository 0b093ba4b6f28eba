#!/usr/bin/env python3
"""Writes DIR/report.html: one page with the tables, the plots, the warnings and the machine of DIR/report.json.

The page holds all that it shows, so it can be sent as one file. The plots are drawn into DIR/plots on the way. Needs
matplotlib and Jinja2, which scripts/setup.sh puts into .venv; that Python is used by itself when it is there.
"""

import os
import sys

from plots.command import begin


def main():
    folder, report = begin("report.py", __doc__, "matplotlib", "numpy", "jinja2")
    from plots.catalogue import draw_all
    from plots.page import render

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
