#!/usr/bin/env bash
# Records a window of one case with Nsight Systems: kernels, copies and CUDA calls on a timeline, under ranges that name
# phase, layer and operation. On the CPU: the ranges and samples of the call stacks. docs/profiling.md says how to read it.
#
# usage: scripts/profile_nsys.sh [--out FILE] [--kvlab PROGRAM] -- OPTIONS OF kvlab run
#   --out FILE       the report, .nsys-rep is added; default results/local/nsys-UTC
#   --kvlab PROGRAM  default build/release/kvlab
# The window is what --profile says among the options; without it decode steps 1 to 4. An example:
#   scripts/profile_nsys.sh -- --device cuda --model llama-3.1-8b --weight-dtype bf16 --kv-dtype bf16 \
#     --prompt-tokens 2048 --gen-tokens 32 --execution graph --profile decode:10..13

set -euo pipefail
name=profile_nsys
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/scripts/profiling/session.bash"

while [ $# -gt 0 ]; do
  take_common_option "$@"
  [ "$taken" -gt 0 ] || { usage >&2; refuse "unknown argument '$1'"; }
  shift "$taken"
done
check_case
need_tool nsys nsight-systems-cli /usr/local/cuda/bin /opt/nvidia/nsight-systems-cli/*/bin /opt/nvidia/nsight-systems/*/bin
[ -n "$(case_option --profile)" ] || case_options+=(--profile decode:1..4)
out=${out:-$root/results/local/nsys-$(date -u +%Y%m%dT%H%M%SZ)}
mkdir -p "$(dirname "$out")"

options=(--output "$out" --force-overwrite true --capture-range-end stop --kill none)
if [ "$(case_option --device)" = cuda ]; then
  # A graph as its nodes, so that a replay shows its kernels; no samples, which disturb the host that launches.
  options+=(--trace cuda,cublas,nvtx --cuda-graph-trace node --sample none --cpuctxsw none --capture-range cudaProfilerApi)
else
  options+=(--trace nvtx,osrt,cuda --cuda-graph-trace node --sample process-tree
    --capture-range nvtx --nvtx-capture profile@kvlab)
fi
"$tool" profile "${options[@]}" "$kvlab" run "${case_options[@]}"

echo "$name: the report is $out.nsys-rep"
echo "  nsys-ui $out.nsys-rep                                     the timeline; ranges are in the row NVTX, domain kvlab"
echo "  nsys stats --report nvtx_gpu_proj_sum $out.nsys-rep       GPU time by range: phase, layer, operation"
echo "  nsys stats --report cuda_gpu_kern_sum $out.nsys-rep       GPU time by kernel; docs/profiling.md names them"
echo "  nsys stats --report nvtx_sum $out.nsys-rep                host time by range, all there is on the CPU"
