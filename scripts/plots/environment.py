"""Finding a Python that can draw: the one of .venv when it is there, and a clear word when none can."""

import importlib.util
import os
import sys
from pathlib import Path

SOURCE_ROOT = Path(__file__).resolve().parents[2]


def use_venv():
    """Starts the running script anew with .venv's Python, where that exists and is not running already."""
    venv = SOURCE_ROOT / ".venv"
    python = venv / "bin" / "python"
    if python.exists() and Path(sys.prefix).resolve() != venv.resolve():
        os.execv(python, [str(python), *sys.argv])


def require(program, *modules):
    """Ends the program with exit code 1 when a module is missing, saying how to get it."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"{program}: {' and '.join(missing)} missing; scripts/setup.sh makes .venv with all that is needed")
