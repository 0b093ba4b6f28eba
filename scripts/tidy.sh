#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy over tracked sources, as build/release compiles them. It takes 4 to 20
# seconds a file, so it is a command of its own and no part of scripts/test.sh.
#
# usage: scripts/tidy.sh [PATH]...      files or folders; default: every tracked source

set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  -*) echo "tidy: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
esac
for path in "$@"; do
  if [ ! -e "$path" ]; then echo "tidy: there is no '$path'" >&2; exit 2; fi
done
if ! command -v run-clang-tidy >/dev/null; then
  echo "tidy: clang-tidy is missing; run scripts/setup.sh --with-clang" >&2; exit 1
fi

if [ ! -f build/release/compile_commands.json ]; then cmake --preset release; fi
mapfile -t files < <(git ls-files -- "${@:-.}" | grep '\.cpp$')
if [ "${#files[@]}" -eq 0 ]; then echo "tidy: no tracked .cpp file there" >&2; exit 2; fi
run-clang-tidy -quiet -p build/release -j "$(nproc)" "${files[@]/%/\$}"
