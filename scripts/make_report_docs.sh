#!/usr/bin/env bash
# Writes docs/report.md from the list of report fields in the code. Usage: scripts/make_report_docs.sh [BUILD_DIR]
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  sed -n '2s/^# //p' "scripts/${0##*/}"
  exit 0
fi
build="${1:-build/release}"
test_program="$build/tests/harness_test"
if [[ ! -x "$test_program" ]]; then
  echo "make_report_docs.sh: $test_program is missing; build it first: cmake --build $build --target harness_test" >&2
  exit 2
fi
KVLAB_WRITE_DOCS=1 "$test_program" --gtest_filter=ReportFields.CommittedPageIsTheList --gtest_brief=1
echo "wrote docs/report.md"
