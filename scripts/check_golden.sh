#!/usr/bin/env bash
# Compares a built kvlab with the answers in tests/golden, which independent float64 programs made: ids, greedy tokens,
# logits and likelihood, in every variant. Options: scripts/check_golden.sh --help.
set -euo pipefail
exec python3 "$(dirname "$0")/check_golden.py" "$@"
