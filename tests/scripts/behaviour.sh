#!/usr/bin/env bash
# How the scripts answer: every one parses, explains itself and refuses what it does not know with exit code 2. Nothing
# is installed, built or fetched.
set -uo pipefail
cd "$(dirname "$0")/../.."
failures=0

fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

expect_exit() {  # CODE COMMAND...
  local code=$1 output status
  shift
  output=$("$@" 2>&1 </dev/null)
  status=$?
  [ "$status" -eq "$code" ] || fail "'$*' ended with $status, expected $code: $output"
  [ -n "$output" ] || fail "'$*' said nothing"
}

for script in scripts/*.sh .ci/run; do
  bash -n "$script" || fail "$script does not parse"
  [ -x "$script" ] || fail "$script is not executable"
done
for script in scripts/*.py; do
  python3 -c 'import ast, sys; ast.parse(open(sys.argv[1], encoding="utf-8").read())' "$script" ||
    fail "$script does not parse"
done
for script in scripts/*.sh; do
  expect_exit 0 "$script" --help
  expect_exit 2 "$script" --no-such-option
done
expect_exit 2 scripts/bench.sh no/such/sweep.json
expect_exit 2 scripts/bench.sh one.json two.json
expect_exit 2 scripts/tidy.sh no/such/file.cpp
expect_exit 2 scripts/check_golden.sh --kvlab no/such/program
expect_exit 2 scripts/check_golden.sh --only nothing
expect_exit 77 scripts/check_golden.sh --kvlab /bin/true --model no/such/model.gguf --only smollm2

[ "$failures" -eq 0 ] && echo "the scripts answer as they should"
exit $((failures > 0))
