"""What the drawing scripts begin with: one argument, a sweep's folder, and a Python that can draw."""

import argparse
import sys
from pathlib import Path

from plots import environment
from plots.report_data import BadReport, read_report


def begin(program, description, *modules):
    """Reads the command line and DIR/report.json: (DIR, report). Ends the program with exit code 2 when the report
    cannot be read, and with 1 when one of the modules is missing; .venv's Python takes over where it is there."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog=f"example: scripts/{program} results/local/first")
    parser.add_argument("folder", metavar="DIR", type=Path, help="a sweep's folder, with report.json in it")
    folder = parser.parse_args().folder
    try:
        report = read_report(folder)
    except BadReport as error:
        print(f"{program}: {error}", file=sys.stderr)
        sys.exit(2)
    environment.use_venv()
    environment.require(program, *modules)
    return folder, report
