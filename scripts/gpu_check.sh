#!/usr/bin/env bash
# Checks and measures kvlab on an NVIDIA GPU that cannot build it: one script makes a bundle where nvcc is, and runs it
# where the GPU is.
#
# usage: scripts/gpu_check.sh --prepare [--out FILE]
#        gpu_check.sh --run [--minutes N] [--out DIR]
#   --prepare      builds for sm_80 and sm_90 (needs nvcc, no GPU) and packs programs, our libraries and this script into
#                  FILE, default build/kvlab-gpu-check.tar.gz, at most 40 MB. CUDA's own libraries stay out.
#   --run          on the GPU machine, in the unpacked bundle: primitives, kernels, ceilings, kernel benchmarks, sweeps of
#                  an 8B shape, PyTorch's attention where Python has it, Nsight Compute's bytes where ncu is. The most
#                  valuable comes first; what no longer fits into the time is left out and named. docs/gpu_check.md
#                  lists the steps. The last table holds the measured ratios to the targets.
#   --minutes N    time for --run, default 12
#   --out          --prepare: the bundle; --run: an empty or new folder for at most 8 files of 16 MiB, default gpu-check-UTC
#
# Clocks and every other setting of the GPU stay as they are. Exit code: 0 all that ran was right, 1 something was not,
# 2 it cannot be done here (the message says why).

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
action="" minutes=12 out=""

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }
refuse() { echo "gpu_check: $1" >&2; exit 2; }

while [ $# -gt 0 ]; do
  case "$1" in
    --prepare | --run) action=${1#--}; shift ;;
    --minutes | --out)
      [ $# -ge 2 ] || refuse "$1 needs a value"
      case "$1" in --minutes) minutes=$2 ;; --out) out=$2 ;; esac
      shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; refuse "unknown argument '$1'" ;;
  esac
done
[[ $minutes =~ ^[1-9][0-9]{0,3}$ ]] || refuse "--minutes $minutes: a whole number from 1 to 9999"

case "$action" in
  prepare)
    [ -f "$here/gpu_check/prepare.sh" ] && [ -f "$here/../CMakeLists.txt" ] ||
      refuse "--prepare needs a checkout of kvlab; this is an unpacked bundle: use --run"
    cd "$here/.."
    exec scripts/gpu_check/prepare.sh "${out:-build/kvlab-gpu-check.tar.gz}" ;;
  run)
    [ -x "$here/bin/kvlab" ] || refuse "--run needs an unpacked bundle of --prepare around this script"
    exec "$here/gpu_check/run.sh" "$here" "$minutes" "${out:-gpu-check-$(date -u +%Y%m%dT%H%M%SZ)}" ;;
  *) usage >&2; refuse "--prepare or --run?" ;;
esac
