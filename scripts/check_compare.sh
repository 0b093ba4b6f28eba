#!/usr/bin/env bash
# Checks `kvlab compare` on real runs: two measurements of one build must come out the same in at least 95 % of the timed
# cells, and a build whose matrix products take a tenth longer must be found slower. Takes three minutes when nothing
# else runs, beside the builds.
#
# usage: scripts/check_compare.sh [--model M] [--sessions N] [--kernel matmul|attention] [--out DIR]
#   --model      default tiny: its weights stay in a core's caches, where a neighbour on the machine cannot slow them
#   --sessions   processes a side, each with one round of every case; default 60, at least 10
#   --kernel     the kernel that is slowed, default matmul: it is most of a step, so that the whole step shows it
#   --out        empty or new folder for reports and comparisons, default results/local/check-compare-UTC
#
# Rounds of one process share what holds for seconds: placement of memory, neighbours on the machine. So every round is a
# process of its own, and the sides take turns, a second each; times are compared at their 10th percentile, where
# no neighbour was at work: docs/measuring.md, "Comparing two builds".

set -euo pipefail
cd "$(dirname "$0")/.."
model=tiny sessions=60 kernel=matmul out=results/local/check-compare-$(date -u +%Y%m%dT%H%M%SZ)

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

while [ $# -gt 0 ]; do
  case "$1" in
    --model | --sessions | --kernel | --out)
      if [ $# -lt 2 ]; then echo "check_compare: $1 needs a value" >&2; exit 2; fi
      case "$1" in
        --model) model=$2 ;; --sessions) sessions=$2 ;; --kernel) kernel=$2 ;; --out) out=$2 ;;
      esac
      shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "check_compare: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
done
if ! [[ $sessions =~ ^[1-9][0-9]*$ ]] || [ "$sessions" -lt 10 ]; then
  echo "check_compare: --sessions $sessions: at least 10, or a 10th percentile has no interval" >&2; exit 2
fi
if [ -e "$out" ] && [ -n "$(ls -A "$out")" ]; then
  echo "check_compare: $out is not empty; name another folder with --out" >&2; exit 2
fi

# build NAME KERNEL: build/NAME/kvlab, with that kernel slowed ("": none)
build() {
  echo "check_compare: building build/$1"
  local launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cmake -S . -B "build/$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DKVLAB_TESTS=OFF -DKVLAB_BENCHMARKS=OFF \
    -DKVLAB_TEST_SLOWDOWN="$2" "${launcher[@]}" >/dev/null
  cmake --build "build/$1" --target kvlab -j "${JOBS:-$(nproc)}" >/dev/null
}

# write_sweep N: the sweep whose every case has N rounds in all; a resumed run adds what is missing
write_sweep() {
  cat >"$out/sweep.json" <<JSON
{ "name": "check-compare", "models": ["$model"],
  "axes": { "cache": ["contiguous", "paged"], "page_size": [16, 64], "attention": ["naive", "fused"], "heads": ["model"],
            "prompt_tokens": [128], "gen_tokens": [65], "batch": [1], "weight_dtype": ["f32"], "kv_dtype": ["f32"] },
  "rounds": { "min": $1, "max": $1, "target_ci": 0.01, "budget_s": 100000 } }
JSON
}

# measure SIDE: one more process, which adds a round to every case; one thread, so that the other cores take the
# system's own work
measure() {
  local binary=build/compare-normal/kvlab
  if [ "$1" = slowed ]; then binary=build/compare-slowed/kvlab; fi
  "$binary" sweep "$out/sweep.json" --out "$out/$1" --resume --threads 1 >"$out/$1.txt" 2>&1 || { cat "$out/$1.txt" >&2; exit 1; }
}

# compare OTHER: first against OTHER; prints the exit code
compare() {
  local code=0
  build/compare-normal/kvlab compare --percentile 10 "$out/first/report.json" "$out/$1/report.json" --json "$out/first-$1.json" \
    >"$out/first-$1.txt" 2>&1 || code=$?
  if [ "$code" -gt 1 ]; then cat "$out/first-$1.txt" >&2; fi
  echo "$code"
}

build compare-normal ""
build compare-slowed "$kernel"
mkdir -p "$out"
sides=(first second slowed)
for ((session = 1; session <= sessions; ++session)); do
  write_sweep "$session"
  for ((i = 0; i < 3; ++i)); do measure "${sides[(session + i) % 3]}"; done  # each side leads in turn
  if ((session % 10 == 0)); then echo "check_compare: session $session of $sessions, $SECONDS s"; fi
done

same_code=$(compare second)
slowed_code=$(compare slowed)
if [ "$same_code" -gt 1 ] || [ "$slowed_code" -gt 1 ]; then exit 1; fi
python3 - "$out" "$same_code" "$slowed_code" "$kernel" <<'PYTHON'
import json, sys
from collections import Counter

out, same_code, slowed_code, kernel = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
TIMED = ("tokens_per_s", "_s.p10")


def timed_cells(name):
    with open(f"{out}/{name}.json") as file:
        cells = json.load(file)["cells"]
    return [cell for cell in cells if cell["metric"].endswith(TIMED)]


def tell(name, cells):
    verdicts = Counter(cell["verdict"] for cell in cells)
    print(f"{name}: {len(cells)} timed cells: " + ", ".join(f"{n} {verdict}" for verdict, n in verdicts.most_common()))


same, slowed = timed_cells("first-second"), timed_cells("first-slowed")
share = sum(cell["verdict"] == "same" for cell in same) / len(same)
steps = [cell for cell in slowed if cell["metric"] == "latency.step_s.p10"]
found = slowed_code == 1 and all(cell["verdict"] == "slower" for cell in steps)
tell("one build twice", same)
print(f"  same: {share:.0%}, demanded are 95 %; compare ended with {same_code}")
tell(f"{kernel} slowed by 10 %", slowed)
for cell in steps:
    print(f"  step time x {cell['ratio']:.3f} ({cell['low']:.3f} to {cell['high']:.3f}): {cell['verdict']}")
print(f"  found: {'yes' if found else 'no'}; compare ended with {slowed_code}, demanded is 1")
sys.exit(0 if share >= 0.95 and found else 1)
PYTHON
