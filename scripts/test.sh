#!/usr/bin/env bash
# From a fresh clone to a tested build: installs what is missing, checks the formatting, builds with warnings as errors,
# fetches the two real models where they can be reached, and runs every test.
#
# usage: scripts/test.sh [--asan] [--tsan]
#   --asan   also builds loaders, tokenizer, caches and kernels under ASan and UBSan, and runs their tests in the same
#            ctest run (their names begin with asan/)
#   --tsan   also builds the CUDA kernels' emulated tests under ThreadSanitizer (their names begin with tsan/)

set -euo pipefail
cd "$(dirname "$0")/.."
asan=no
tsan=no

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

for argument in "$@"; do
  case "$argument" in
    --asan) asan=yes ;;
    --tsan) tsan=yes ;;
    -h | --help) usage; exit 0 ;;
    *) echo "test: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done

check_format() {
  local files
  mapfile -t files < <(git ls-files '*.h' '*.cpp' '*.cuh' '*.cu')
  echo "test: clang-format on ${#files[@]} files"
  clang-format --dry-run -Werror "${files[@]}"
}

# Tests that need a model skip, with a message, where it could not be fetched.
fetch_models() {
  local model
  for model in smollm2 gemma3; do
    timeout 600 scripts/fetch_model.py "$model" </dev/null ||
      echo "test: $model could not be fetched; its tests will be skipped"
  done
}

# A ctest folder whose tests are those of the given build folders, so that one summary covers them all.
join_test_folders() {
  mkdir -p build/all-tests
  printf 'subdirs("%s")\n' "$@" >build/all-tests/CTestTestfile.cmake
}

build() {
  cmake --preset "$1" "${@:2}"
  cmake --build --preset "$1" -j "$(nproc)"
}

scripts/setup.sh --optional-venv
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
if git rev-parse --is-inside-work-tree >/dev/null; then check_format; else echo "test: no git checkout, so the formatting is not checked"; fi
build release -DKVLAB_TESTS=ON
folders=("$PWD/build/release")
if [ "$asan" = yes ]; then
  build asan
  folders+=("$PWD/build/asan")
fi
if [ "$tsan" = yes ]; then
  build tsan
  folders+=("$PWD/build/tsan")
fi
fetch_models
join_test_folders "${folders[@]}"
exec ctest --test-dir build/all-tests -j2 --output-on-failure --no-tests=error
