#!/usr/bin/env python3
"""PyTorch's attention on this GPU, as a peer of kvlab's fused prefill attention: causal, bf16, one batch.

usage: torch_attention.py [--json FILE]

Times scaled_dot_product_attention for 32 heads and 8 KV heads of 128, with FlashAttention-2 and with cuDNN, by CUDA
events, and prints FLOP/s (4 * heads * head_dim * visible pairs). Exit code 77: no PyTorch, or it sees no GPU.
"""

import argparse
import json
import os
import statistics
import sys

N_HEADS, N_KV_HEADS, HEAD_DIM = 32, 8, 128
LENGTHS = (8192, 2048, 16384)  # the one of the target first
N_TIMES = 20


def time_calls(torch, call):
    """Median seconds of one call, warm."""
    for _ in range(3):
        call()
    times = []
    for _ in range(N_TIMES):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def measure(torch, length, backend):
    """A row of the result, or why there is none."""
    from torch.nn.attention import sdpa_kernel
    shape = {"device": "cuda", "dtype": torch.bfloat16}
    q = torch.randn(1, N_HEADS, length, HEAD_DIM, **shape)
    k, v = (torch.randn(1, N_KV_HEADS, length, HEAD_DIM, **shape) for _ in range(2))
    k, v = (x.repeat_interleave(N_HEADS // N_KV_HEADS, dim=1) for x in (k, v))
    attention = torch.nn.functional.scaled_dot_product_attention
    row = {"length": length, "backend": backend.name}
    try:
        with sdpa_kernel(backend):
            seconds = time_calls(torch, lambda: attention(q, k, v, is_causal=True))
    except RuntimeError as error:
        return row | {"reason": str(error).splitlines()[0]}
    flops = 4 * N_HEADS * HEAD_DIM * length * (length + 1) // 2
    return row | {"seconds": seconds, "flops_per_s": flops / seconds}


def write_json(path, content):
    """Whole at any moment: the script may be ended between two rows."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the rows to this file")
    arguments = parser.parse_args()
    try:
        import torch
        from torch.nn.attention import SDPBackend
    except ImportError as error:
        print(f"no PyTorch with selectable attention: {error}")
        return 77
    if not torch.cuda.is_available():
        print("PyTorch sees no GPU")
        return 77
    rows = []
    for length in LENGTHS:
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            row = measure(torch, length, backend)
            rows.append(row)
            if arguments.json:
                write_json(arguments.json, {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "rows": rows})
            result = f"{row['flops_per_s'] / 1e12:.1f} TFLOP/s" if "seconds" in row else row["reason"]
            print(f"{row['backend']} {row['length']}: {result}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
