#!/usr/bin/env bash
# The --run half of gpu_check.sh: the list of steps in order of value, while time is left, and the tables.
# usage: run.sh BUNDLE MINUTES OUT

set -euo pipefail
bundle=$1 minutes=$2 out=$3
closing_s=15  # kept for the last report and the tables
deadline=$((SECONDS + minutes * 60 - closing_s))
kvlab=$bundle/bin/kvlab
export KVLAB_HOME=$bundle

refuse() { echo "gpu_check: $1" >&2; exit 2; }

if [ -e "$out" ] && [ -n "$(ls -A "$out" 2>/dev/null)" ]; then refuse "$out is not empty; name another folder with --out"; fi

# shellcheck source-path=SCRIPTDIR
source "$bundle/gpu_check/cuda_libraries.bash"
source "$bundle/gpu_check/steps.bash"
source "$bundle/gpu_check/measurements.bash"
find_cuda
probe=$(ours "$kvlab" run --model toy --device cuda --prompt-tokens 5 --gen-tokens 2 --rounds 1 2>&1) ||
  refuse "no run on this GPU is possible: $(tail -1 <<<"$probe")"
mkdir -p "$out"
out=$(cd "$out" && pwd)
log=$out/log.txt
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export bundle kvlab out scratch library_path no_cupti
{ cat "$bundle/VERSION"; ours "$kvlab" list devices; nvidia-smi 2>/dev/null || true; } >"$log" 2>&1

step primitives 10 ours "$bundle/bin/kernels_cuda_device_conformance_test" --gtest_brief=1
step kernels 60 ours env "KVLAB_TEST_BACKEND=$bundle/bin/libkvlab_cuda.so" "$bundle/bin/kernels_backend_test" --gtest_brief=1
step ceilings 20 ours "$kvlab" ceilings --device cuda --json "$out/ceilings.json"
step kernel-benchmarks 75 kernel_benchmarks
step decode-fused 75 sweep gpu-decode fused attention=fused execution=graph
keep_report gpu-decode
step kernel-times 30 kernel_times
step torch-attention 45 torch_attention
step prefill-fused 60 sweep gpu-prefill fused attention=fused
keep_report gpu-prefill
step decode-eager 50 sweep gpu-decode eager attention=fused execution=eager
keep_report gpu-decode
step decode-naive 60 sweep gpu-decode naive attention=naive
keep_report gpu-decode
step prefill-naive 60 sweep gpu-prefill naive attention=naive
keep_report gpu-prefill
step dram-bytes 60 dram_bytes

targets=$(python3 "$bundle/gpu_check/targets.py" "$out" "$scratch/steps.tsv" 2>&1) || targets="no table of targets: ${targets:-no python3}"
limit_files
{
  echo
  printf '%s\n' "${table[@]}"
  echo "files: $out: $(cd "$out" && ls | tr '\n' ' ')"
  printf '\n%s\n' "$targets"
} | tee -a "$log"
exit $failed
