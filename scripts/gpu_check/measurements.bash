# The steps of gpu_check that are more than one command. Sourced by run.sh and by the shell of each step, which have
# $bundle, $kvlab, $out, $scratch and $library_path. Exit code 77: this machine lacks what the step needs.

# A program of the bundle, with its libraries and CUDA's. The other programs (Python, ncu) keep the machine's own.
ours() { LD_LIBRARY_PATH=$library_path "$@"; }

# A decode step of the 8B shape, as --kernel-times and Nsight Compute look at it.
decode_case=(--model llama-3.1-8b --device cuda --weight-dtype bf16 --kv-dtype bf16 --batch 1 --depth 4096 --prompt-tokens 1
  --kv-fill random --sampling device)

# The entries that the targets name, and cuBLAS beside our GEMV. Timed by a graph of 8 calls and more, so that 0.02 s are
# 0.2 s and more of it.
kernel_benchmarks() {
  ours "$bundle/bin/kvlab-kernels" --device=cuda '--benchmark_filter=^cuda/(attention_fused/|gemv/.*/cold/)' \
    --benchmark_min_time=0.02 "--benchmark_out=$out/kernels.json" --benchmark_out_format=json
}

# sweep NAME PART FILTER...: measures a part of configs/sweeps/NAME.json. Cut off, it leaves the report of what there is.
sweep() {
  local name=$1 part=$2 rc=0
  local folder=$scratch/$1/$2
  shift 2
  mkdir -p "$scratch/$name"
  ours "$kvlab" sweep "$bundle/configs/sweeps/$name.json" --device cuda --quiet "${@/#/--filter=}" --out "$folder" || rc=$?
  if [ -f "$folder/report.json" ]; then echo "cells of $part: $(statuses "$folder/report.json")"; fi
  return $rc
}

# How many cells of a report are ok, skipped, ...
statuses() { sed -n 's/^ *"status": "\([a-z]*\)".*/\1/p' "$1" | sort | uniq -c | awk '{printf "%s%d %s", (NR > 1 ? ", " : ""), $1, $2}'; }

# keep_report NAME: what the parts of a sweep have measured so far, as one report.
keep_report() {
  local parts=() report
  for report in "$scratch/$1"/*/report.json; do
    if [ -f "$report" ]; then parts+=("$(dirname "$report")"); fi
  done
  case ${#parts[@]} in
    0) ;;
    1) cp "${parts[0]}/report.json" "$out/$1.json" ;;
    *)
      rm -rf "$scratch/$1.merged"
      ours "$kvlab" merge "${parts[@]}" --out "$scratch/$1.merged" >>"$log" 2>&1 || true  # 1: a case failed
      if [ -f "$scratch/$1.merged/report.json" ]; then cp "$scratch/$1.merged/report.json" "$out/$1.json"; fi ;;
  esac
}

# Each kernel's time in a replayed decode step, and the gaps between them.
kernel_times() {
  [ -e "$bundle/bin/libkvlab_cupti.so" ] || { echo "no libkvlab_cupti.so in this bundle"; return 77; }
  [ -z "$no_cupti" ] || { echo "$no_cupti"; return 77; }
  ours "$kvlab" run "${decode_case[@]}" --kernel-times --execution graph --gen-tokens 33 --json "$out/kernel_times.json"
}

torch_attention() {
  command -v python3 >/dev/null || { echo "no python3 on this machine"; return 77; }
  local rc=0
  python3 "$bundle/gpu_check/torch_attention.py" --json "$out/torch_attention.json" || rc=$?
  rm -f "$out/torch_attention.json.new"
  return $rc
}

# A decode step's DRAM traffic by Nsight Compute beside the modelled bytes. A profiled run writes no report, so the
# model's number comes from a run of its own.
dram_bytes() {
  command -v ncu >/dev/null || { echo "no ncu on this machine"; return 77; }
  local case_options=("${decode_case[@]}" --gen-tokens 4 --rounds 1) measured modelled
  ours "$kvlab" run "${case_options[@]}" --json "$scratch/ncu.json" || return $?
  ncu --clock-control none --target-processes all --profile-from-start off --csv --print-units base \
    --metrics dram__bytes_read.sum,dram__bytes_write.sum --log-file "$out/ncu.csv" \
    env "LD_LIBRARY_PATH=$library_path" "$kvlab" run "${case_options[@]}" --profile decode:2..2 || return $?
  if grep -q ERR_NVGPUCTRPERM "$out/ncu.csv"; then echo "this user may not read the GPU's counters (ERR_NVGPUCTRPERM)"; return 77; fi
  measured=$(awk -F'","' '/dram__bytes_(read|write).sum/ {gsub(/[",]/, "", $NF); total += $NF} END {printf "%.0f", total}' "$out/ncu.csv")
  modelled=$(sed -n 's/.*"bytes_per_step": *\([0-9]*\).*/\1/p' "$scratch/ncu.json" | head -1)
  echo "one step at 4,096 tokens: $measured bytes of DRAM traffic, $modelled modelled"
}
