#!/usr/bin/env bash
# The --run half of gpu_check.sh: finds CUDA's libraries, goes down the list of steps while time is left, prints a table.
# usage: run.sh BUNDLE MINUTES OUT

set -euo pipefail
bundle=$1 minutes=$2 out=$3
closing_s=15  # kept for the last report and the table
deadline=$((SECONDS + minutes * 60 - closing_s))
kvlab=$bundle/bin/kvlab
export KVLAB_HOME=$bundle
table=()
failed=0

refuse() { echo "gpu_check: $1" >&2; exit 2; }

if [ -e "$out" ] && [ -n "$(ls -A "$out" 2>/dev/null)" ]; then refuse "$out is not empty; name another folder with --out"; fi

# Folders where CUDA's libraries may lie: the loader's, the toolkit's, Python's packages.
library_folders() {
  tr ':' '\n' <<<"${LD_LIBRARY_PATH:-}"
  ldconfig -p 2>/dev/null | sed -n 's/.* => \(.*\)\/[^/]*$/\1/p' | sort -u
  ls -d /usr/local/cuda*/lib64 /usr/local/cuda*/targets/x86_64-linux/lib 2>/dev/null || true
  if command -v python3 >/dev/null; then
    python3 -c 'import glob, site, sys
for base in site.getsitepackages() + [site.getusersitepackages()] + sys.path:
    for path in glob.glob(base + "/nvidia/*/lib"): print(path)' 2>/dev/null || true
  fi
}

# Puts every folder that has a library of cuda_libraries.txt into LD_LIBRARY_PATH; refuses when one is nowhere.
find_cuda() {
  local folders path="" name folder found
  mapfile -t folders < <(library_folders | grep -v '^$' | awk '!seen[$0]++')
  while read -r name; do
    found=""
    for folder in "${folders[@]}"; do
      if [ -e "$folder/$name" ]; then found=$folder; break; fi
    done
    [ -n "$found" ] || refuse "$name is in none of ${#folders[@]} folders (the loader's, /usr/local/cuda*, Python's nvidia packages); add its folder to LD_LIBRARY_PATH"
    case ":$path:" in *":$found:"*) ;; *) path=$path:$found ;; esac
  done <"$bundle/cuda_libraries.txt"
  export LD_LIBRARY_PATH="$bundle/lib$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

row() { table+=("$(printf '%-22s %-9s %5s s  %s' "$1" "$2" "$3" "$4")"); }

# step NAME ESTIMATE_S COMMAND...: runs the command if it fits; its last line of output is what the table says.
step() {
  local name=$1 estimate=$2 left=$((deadline - SECONDS)) start=$SECONDS rc=0
  shift 2
  if [ "$left" -lt "$estimate" ]; then row "$name" "left out" 0 "needs about $estimate s, $left s are left"; return; fi
  echo "gpu_check: $name (about $estimate s; $left s are left)"
  printf '\n== %s: %s\n' "$name" "$*" >>"$log"
  timeout --kill-after=10 "$left" "$@" >"$scratch/output" 2>&1 </dev/null || rc=$?
  cat "$scratch/output" >>"$log"
  local said status=ok
  said=$(grep -v '^[[:space:]]*$' "$scratch/output" | tail -1 | cut -c1-100 || true)
  case $rc in
    0) ;;
    124 | 130 | 137) status="cut off" ;;
    77) status="not here" ;;
    *) status="failed $rc"; failed=1 ;;
  esac
  row "$name" "$status" "$((SECONDS - start))" "$said"
}

# sweep NAME: measures configs/sweeps/NAME.json and keeps its report as NAME.json; a cut-off sweep leaves a valid one.
sweep() {
  local rc=0
  "$kvlab" sweep "$bundle/configs/sweeps/$1.json" --device cuda --quiet --out "$scratch/$1" || rc=$?
  if [ -f "$scratch/$1/report.json" ]; then cp "$scratch/$1/report.json" "$out/$1.json"; fi
  return $rc
}

# A decode step's DRAM traffic by Nsight Compute beside the modelled bytes. A profiled run writes no report, so the
# model's number comes from a run of its own.
dram_bytes() {
  command -v ncu >/dev/null || { echo "no ncu on this machine"; return 77; }
  local case_options=(--model llama-3.1-8b --device cuda --weight-dtype bf16 --kv-dtype bf16 --batch 1 --depth 4096
    --prompt-tokens 1 --gen-tokens 4 --kv-fill random --rounds 1)
  local measured modelled
  "$kvlab" run "${case_options[@]}" --json "$scratch/ncu.json" || return $?
  ncu --clock-control none --profile-from-start off --csv --print-units base --metrics dram__bytes_read.sum,dram__bytes_write.sum \
    --log-file "$out/ncu.csv" "$kvlab" run "${case_options[@]}" --profile decode:2..2 || return $?
  measured=$(awk -F'","' '/dram__bytes_(read|write).sum/ {gsub(/[",]/, "", $NF); total += $NF} END {printf "%.0f", total}' "$out/ncu.csv")
  modelled=$(sed -n 's/.*"bytes_per_step": *\([0-9]*\).*/\1/p' "$scratch/ncu.json" | head -1)
  echo "one step at 4,096 tokens: $measured bytes of DRAM traffic, $modelled modelled"
}

torch_attention() {
  command -v python3 >/dev/null || { echo "no python3 on this machine"; return 77; }
  python3 "$bundle/gpu_check/torch_attention.py" --json "$out/torch_attention.json"
}

export -f sweep dram_bytes torch_attention
find_cuda
probe=$("$kvlab" run --model toy --device cuda --prompt-tokens 5 --gen-tokens 2 --rounds 1 2>&1) ||
  refuse "no run on this GPU is possible: $(tail -1 <<<"$probe")"
mkdir -p "$out"
out=$(cd "$out" && pwd)
log=$out/log.txt
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export bundle kvlab out scratch
{ cat "$bundle/VERSION"; "$kvlab" list devices; nvidia-smi 2>/dev/null || true; } >"$log" 2>&1

step primitives 10 "$bundle/bin/kernels_cuda_device_conformance_test" --gtest_brief=1
step kernels 60 env "KVLAB_TEST_BACKEND=$bundle/bin/libkvlab_cuda.so" "$bundle/bin/kernels_backend_test" --gtest_brief=1
step ceilings 20 "$kvlab" ceilings --device cuda --json "$out/ceilings.json"
step kernel-benchmarks 90 "$bundle/bin/kvlab-kernels" --benchmark_filter=^cuda "--benchmark_out=$out/kernels.json" --benchmark_out_format=json
step gpu-decode 150 bash -c 'sweep gpu-decode'
step gpu-prefill 120 bash -c 'sweep gpu-prefill'
step torch-attention 45 bash -c torch_attention
step dram-bytes 90 bash -c dram_bytes

{
  echo
  printf '%s\n' "${table[@]}"
  echo "files: $out: $(cd "$out" && ls | tr '\n' ' ')"
} | tee -a "$log"
exit $failed
