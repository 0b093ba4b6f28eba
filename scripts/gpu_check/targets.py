#!/usr/bin/env python3
"""The issue's targets, from the files that the steps of gpu_check left: measured, ceiling of the same run, ratio, wanted.

usage: targets.py FOLDER STEPS

FOLDER holds ceilings.json, kernels.json, gpu-decode.json, kernel_times.json and torch_attention.json, as far as their steps
ran; STEPS has a line for each step: name, status, what it said, with tabs between. Where there are several rows for a
target the worst counts, and is named. What has no number says why. Exit code 0: this judges the kernels, not the run.
"""

import json
import math
import re
import sys
from pathlib import Path

LEAST_KV_BYTES = 256e6
LEAST_LARGE_BYTES = 200e6
MIDDLE_BYTES = (30e6, 50 * 2**20)  # the 50 MB are 48 MiB of weights and their rows
N_PREFILL_TOKENS = 8192
DECODE = r"cuda/attention_fused/([^/]+/decode/batch:\d+/context:\d+)/(contiguous|paged:64)/bf16/cold/manual_time"
PREFILL = r"cuda/attention_fused/[^/]+/prefill/batch:1/context:%d/contiguous/bf16/warm/manual_time" % N_PREFILL_TOKENS
GEMV = r"cuda/gemv/[^/]+/(.+)/bf16/own/cold/manual_time"
TIME_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


class NotMeasured(Exception):
    """Why a target has no number."""


class Results:
    """The files of a run, and why one is not there."""

    def __init__(self, folder, steps):
        self.folder = Path(folder)
        self.steps = {}
        for line in Path(steps).read_text(encoding="utf-8").splitlines():
            name, status, said = line.split("\t", 2)
            self.steps[name] = f"{status}: {said}"

    def read(self, file, step):
        try:
            return json.loads((self.folder / file).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise NotMeasured(f"{step} {self.steps.get(step, 'did not run')}") from None
        except ValueError:
            raise NotMeasured(f"{file} is no JSON") from None

    def read_bandwidth(self):
        ceilings = self.read("ceilings.json", "ceilings")["ceilings"]
        return positive(ceilings.get("read_bytes_per_s"), "read_bytes_per_s of ceilings.json")

    def kernels(self, pattern):
        """(groups of the pattern, seconds of a call, its bytes, its FLOPs) of the entries with such a name."""
        found, errors = [], []
        for row in self.read("kernels.json", "kernel-benchmarks")["benchmarks"]:
            match = re.fullmatch(pattern, row["name"])
            if match and row.get("error_occurred"):
                errors.append(row.get("error_message", "an error"))
            elif match:
                seconds = row["real_time"] * TIME_UNITS[row["time_unit"]]
                found.append((match.groups(), seconds, row.get("bytes_per_s", 0) * seconds, row.get("flops_per_s", 0) * seconds))
        if not found:
            raise NotMeasured(errors[0] if errors else "kernels.json has no such entry")
        return found


def positive(value, what):
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise NotMeasured(f"{what} is {value}")
    return value


def giga(bytes_per_s):
    return f"{bytes_per_s / 1e9:.0f} GB/s"


def tera(flops_per_s):
    return f"{flops_per_s / 1e12:.0f} TFLOP/s"


def bandwidth_share(results, rows):
    """Of (name, seconds, bytes): the one with the least bandwidth beside what can be read."""
    ceiling = results.read_bandwidth()
    if not rows:
        raise NotMeasured("no entry of that size")
    name, seconds, n_bytes = min(rows, key=lambda row: row[2] / row[1])
    return f"{giga(n_bytes / seconds)} ({name})", giga(ceiling), n_bytes / seconds / ceiling


def decode_attention(results):
    rows = [(name.split("decode/")[1], seconds, n_bytes) for (name, layout), seconds, n_bytes, _ in results.kernels(DECODE)
            if layout == "contiguous" and n_bytes >= LEAST_KV_BYTES]
    return bandwidth_share(results, rows)


def paged_attention(results):
    times = {}
    for (name, layout), seconds, _, _ in results.kernels(DECODE):
        times.setdefault(name, {})[layout] = seconds
    pairs = [(name.split("decode/")[1], both["contiguous"], both["paged:64"]) for name, both in times.items() if len(both) == 2]
    if not pairs:
        raise NotMeasured("no entry with both layouts")
    name, contiguous, paged = min(pairs, key=lambda pair: pair[1] / pair[2])
    return f"{paged * 1e6:.1f} us ({name})", f"{contiguous * 1e6:.1f} us", contiguous / paged


def gemv(results, least, most):
    rows = [(name, seconds, n_bytes) for (name,), seconds, n_bytes, _ in results.kernels(GEMV) if least <= n_bytes <= most]
    return bandwidth_share(results, rows)


def decode_step(results):
    """Batch 1, fused, replayed: the bytes of a step at the bandwidth of the report, over the median step."""
    report = results.read("gpu-decode.json", "decode-fused")
    bandwidth = positive((report.get("ceilings") or {}).get("read_bytes_per_s"), "read_bytes_per_s of gpu-decode.json")
    rows, reasons = [], []
    for result in report["results"]:
        variant, workload = result["case"]["variant"], result["case"]["workload"]
        if workload["batch"] != 1 or variant["decode_attention"] != "fused" or variant["execution"] != "graph":
            continue
        if result["status"] != "ok":
            reasons.append(f"{result['status']}: {result.get('reason')}")
            continue
        step_s = result["metrics"]["latency"]["step_s"]["p50"]
        floor_s = result["metrics"]["decode"]["bytes_per_step"] / bandwidth
        layout = variant["cache"] + (f":{variant['page_size']}" if variant["cache"] == "paged" else "")
        rows.append((floor_s / step_s, step_s, floor_s, f"depth {workload['depth']}, {layout}"))
    if not rows:
        raise NotMeasured(reasons[0] if reasons else "gpu-decode.json has no such case")
    ratio, step_s, floor_s, name = min(rows)
    return f"{step_s * 1e3:.3f} ms ({name})", f"{floor_s * 1e3:.3f} ms", ratio


def prefill_attention(results, backend):
    [(_, seconds, _, flops), *_] = results.kernels(PREFILL)
    for row in results.read("torch_attention.json", "torch-attention")["rows"]:
        if row["length"] == N_PREFILL_TOKENS and row["backend"] == backend:
            if "seconds" not in row:
                raise NotMeasured(row.get("reason", "no time"))
            return tera(flops / seconds), tera(row["flops_per_s"]), row["seconds"] / seconds
    raise NotMeasured(f"torch_attention.json has no {backend}")


def gaps(results):
    decode = results.read("kernel_times.json", "kernel-times")["decode"]
    pass_s = positive(decode.get("pass_s"), "pass_s of kernel_times.json")
    return f"{decode['kernel_s'] * 1e3:.3f} ms of kernels", f"{pass_s * 1e3:.3f} ms", 1 - decode["kernel_s"] / pass_s


# (target, the measurement, the wanted ratio: at least, or at most where True; None: reported alone)
TARGETS = [
    ("decode attention, K and V >= 256 MB / read", decode_attention, 0.90, False),
    ("paged-64 / contiguous decode attention", paged_attention, 0.98, False),
    ("GEMV >= 200 MB, cold / read", lambda results: gemv(results, LEAST_LARGE_BYTES, math.inf), 0.93, False),
    ("GEMV 30-50 MB, cold / read", lambda results: gemv(results, *MIDDLE_BYTES), 0.80, False),
    ("llama-3.1-8b batch-1 step / byte floor", decode_step, 0.80, False),
    ("prefill attention 8k / FlashAttention-2", lambda results: prefill_attention(results, "FLASH_ATTENTION"), 0.85, False),
    ("prefill attention 8k / cuDNN", lambda results: prefill_attention(results, "CUDNN_ATTENTION"), None, False),
    ("gaps of a replayed step", gaps, 0.05, True),
]


def line_of(results, name, measure, wanted, is_most):
    limit = "" if wanted is None else f"{'<=' if is_most else '>='} {wanted:.2f}"
    try:
        measured, ceiling, ratio = measure(results)
    except NotMeasured as reason:
        return [name, "not measured", "", "", limit, str(reason)]
    except (KeyError, TypeError, IndexError, ZeroDivisionError) as error:
        return [name, "not measured", "", "", limit, f"a file is not as expected: {error!r}"]
    if wanted is None:
        verdict = ""
    else:
        verdict = "met" if (ratio <= wanted if is_most else ratio >= wanted) else "missed"
    return [name, measured, ceiling, f"{ratio:.3f}", limit, verdict]


def table_of(results):
    lines = [["target", "measured", "ceiling", "ratio", "wanted", ""]] + [line_of(results, *target) for target in TARGETS]
    widths = [max(len(line[i]) for line in lines) for i in range(5)]
    return "\n".join("  ".join([*(text.ljust(width) for text, width in zip(line, widths)), line[5]]).rstrip() for line in lines)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(table_of(Results(sys.argv[1], sys.argv[2])))


if __name__ == "__main__":
    main()
