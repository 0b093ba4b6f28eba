#!/usr/bin/env bash
# From a fresh clone to a measured table: installs what is missing, builds, fetches the default model and runs a sweep
# (configs/sweeps/quickstart.json unless another is named) into results/local/NAME-UTC/.
#
# usage: scripts/bench.sh [SWEEP.json]

set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

if [ $# -gt 1 ]; then
  echo "bench: one sweep at a time" >&2; usage >&2; exit 2
fi
case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  -*) echo "bench: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
esac
sweep=$(realpath -m "${1:-$root/configs/sweeps/quickstart.json}")
if [ ! -f "$sweep" ]; then
  echo "bench: there is no sweep file '$sweep'" >&2; exit 2
fi

cd "$root"
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
scripts/setup.sh --no-venv
cmake --preset release -DKVLAB_TESTS=OFF
cmake --build --preset release -j "$(nproc)"
scripts/fetch_model.py smollm2

out=results/local/$(basename "$sweep" .json)-$(date -u +%Y%m%dT%H%M%SZ)
build/release/kvlab sweep "$sweep" --out "$out"
echo "bench: the report is $out/report.json"
