#!/usr/bin/env bash
# Compiles everything with the second compiler, clang, warnings as errors and without optimisation, in build/clang.
#
# usage: scripts/check_clang.sh

set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

case "${1:-}" in
  '') ;;
  -h | --help) usage; exit 0 ;;
  *) echo "check_clang: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
esac
if ! command -v clang++ >/dev/null; then
  echo "check_clang: clang is missing; run scripts/setup.sh --with-clang" >&2; exit 1
fi

cmake --preset debug -B build/clang -DCMAKE_CXX_COMPILER=clang++ -DKVLAB_CUDA=OFF
cmake --build build/clang -j "$(nproc)"
echo "check_clang: everything compiles with $(clang++ --version | head -n 1)"
