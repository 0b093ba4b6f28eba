#!/usr/bin/env bash
# Measures the kernels of a window of one case with Nsight Compute: the counters that confirm the modelled bytes and FLOPs
# (docs/profiling.md). Needs a GPU. Kernels are run again and again, one by one: the window is small, and times are not
# those of a run.
#
# usage: scripts/profile_ncu.sh [--out FILE] [--kvlab PROGRAM] [--layer L] [--operation NAME] [--kernel REGEX] [--count N]
#                               -- OPTIONS OF kvlab run
#   --out FILE        the report, .ncu-rep is added; default results/local/ncu-UTC
#   --kvlab PROGRAM   default build/release/kvlab
#   --layer L         kernels of this layer alone. Ranges hold the kernels that are launched one by one, so --layer and
#   --operation NAME  --operation (as kvlab trace calls it: "attention", "QKV projection") go with --execution eager
#   --kernel REGEX    kernels whose name matches
#   --count N         at most N kernels; default 64
# The window is what --profile says among the options; without it decode step 1. An example:
#   scripts/profile_ncu.sh --layer 3 --operation attention -- --device cuda --model llama-3.1-8b --weight-dtype bf16 \
#     --kv-dtype bf16 --prompt-tokens 8192 --gen-tokens 8 --profile decode:4..4

set -euo pipefail
name=profile_ncu
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/scripts/profiling/session.bash"

# Bytes that cross each border, requests and sectors of global loads, bank conflicts, and what the tensor pipe and the
# multiply-add pipe executed.
counters=gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum
counters+=,lts__t_bytes.sum,lts__t_sectors_op_read.sum,lts__t_sectors_op_write.sum
counters+=,l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum,l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum
counters+=,l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum
counters+=,sm__inst_executed_pipe_tensor.sum,smsp__sass_thread_inst_executed_op_ffma_pred_on.sum

layer= operation= kernel= count=64
while [ $# -gt 0 ]; do
  take_common_option "$@"
  if [ "$taken" -eq 0 ]; then
    case "$1" in
      --layer | --operation | --kernel | --count) [ $# -ge 2 ] || refuse "$1 needs a value" ;;&
      --layer) layer=$2 ;;
      --operation) operation=$2 ;;
      --kernel) kernel=$2 ;;
      --count) count=$2 ;;
      *) usage >&2; refuse "unknown argument '$1'" ;;
    esac
    taken=2
  fi
  shift "$taken"
done
check_case
[[ -z $layer || $layer =~ ^[0-9]+$ ]] || refuse "--layer '$layer' is no number"
[[ $count =~ ^[1-9][0-9]*$ ]] || refuse "--count '$count' is no positive number"
[ "$(case_option --device)" = cuda ] || refuse "Nsight Compute measures GPU kernels: add --device cuda to the options"
if [ "$(case_option --execution)" = graph ] && [ -n "$layer$operation" ]; then
  refuse "a replay is one range: --layer and --operation go with --execution eager; --kernel goes with both"
fi
need_tool ncu nsight-compute /usr/local/cuda/bin /opt/nvidia/nsight-compute/*
[ -n "$(case_option --profile)" ] || case_options+=(--profile decode:1..1)
out=${out:-$root/results/local/ncu-$(date -u +%Y%m%dT%H%M%SZ)}
mkdir -p "$(dirname "$out")"

# Characters that mean something in a filter are escaped.
escaped() { printf '%s' "$1" | sed 's|[]\\@,/*+[]|\\&|g'; }

options=(--export "$out" --force-overwrite --profile-from-start off --clock-control none --cache-control all
  --graph-profiling node --set detailed --metrics "$counters" --launch-count "$count" --nvtx)
if [ -n "$layer$operation" ]; then
  filter=
  if [ -n "$layer" ]; then filter+="layer $layer/"; fi
  if [ -n "$operation" ]; then filter+="$(escaped "$operation")/"; fi
  options+=(--nvtx-include "kvlab@$filter")
fi
if [ -n "$kernel" ]; then options+=(--kernel-name "regex:$kernel"); fi
"$tool" "${options[@]}" "$kvlab" run "${case_options[@]}"

echo "$name: the report is $out.ncu-rep"
echo "  ncu-ui $out.ncu-rep                              every section of every kernel"
echo "  ncu --import $out.ncu-rep --page raw --csv       the counters; docs/profiling.md says which modelled number each confirms"
