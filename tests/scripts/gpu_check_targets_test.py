#!/usr/bin/env python3
"""The table of targets, from made-up files with known ratios, and the reasons where there is no number."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu_check" / "targets.py"
READ = 4e12  # bytes a second
NAMES = ["decode attention, K and V >= 256 MB / read", "paged-64 / contiguous decode attention",
         "GEMV >= 200 MB, cold / read", "GEMV 30-50 MB, cold / read", "llama-3.1-8b batch-1 step / byte floor",
         "prefill attention 8k / FlashAttention-2", "prefill attention 8k / cuDNN", "gaps of a replayed step"]


def entry(name, n_bytes, share, flops=0.0, **more):
    """A row of Google Benchmark: n_bytes at this share of READ."""
    seconds = n_bytes / (share * READ)
    return {"name": f"cuda/{name}/manual_time", "real_time": seconds * 1e9, "time_unit": "ns", "bytes_per_s": n_bytes / seconds,
            "flops_per_s": flops / seconds} | more


def decode(batch, layout, n_bytes, share, **more):
    return entry(f"attention_fused/llama-3.1-8b/decode/batch:{batch}/context:{65536 // batch}/{layout}/bf16/cold", n_bytes, share, **more)


def gemv(layer, rows, n_bytes, share, setting="own", cache="cold"):
    return entry(f"gemv/llama-3.1-8b/{layer}/rows:{rows}/bf16/{setting}/{cache}", n_bytes, share)


def kernels():
    prefill_flops = 4.0 * 32 * 128 * 8192 * 8193 / 2
    prefill = entry("attention_fused/llama-3.1-8b/prefill/batch:1/context:8192/contiguous/bf16/warm", 1e8, 0.05, prefill_flops)
    return [decode(1, "contiguous", 268e6, 0.96), decode(1, "paged:64", 268e6, 0.95),
            decode(16, "contiguous", 270e6, 0.925), decode(16, "paged:64", 270e6, 0.925),
            decode(32, "contiguous", 100e6, 0.10),  # too small to count
            gemv("gate_up", 1, 235e6, 0.94), gemv("gate_up", 8, 236e6, 0.9), gemv("gate_up", 8, 236e6, 0.5, setting="cublas"),
            gemv("gate_up", 8, 236e6, 0.4, cache="warm"), gemv("qkv", 2, 50.4e6, 0.85), gemv("attention_out", 1, 33.6e6, 0.8125),
            gemv("down", 1, 117e6, 0.3), prefill]  # 5e-4 s


def case(depth, step_s, status="ok", batch=1, attention="fused", execution="graph", cache="contiguous"):
    return {"case": {"variant": {"decode_attention": attention, "execution": execution, "cache": cache, "page_size": 64},
                     "workload": {"batch": batch, "depth": depth}}, "status": status, "reason": "the reason",
            "metrics": {"latency": {"step_s": {"p50": step_s}}, "decode": {"bytes_per_step": 16e9}}}  # floor 4 ms


class Targets(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.write("ceilings.json", {"ceilings": {"read_bytes_per_s": READ}})
        self.write("kernels.json", {"benchmarks": kernels()})
        self.write("gpu-decode.json", {"ceilings": {"read_bytes_per_s": READ}, "results": [
            case(1024, 4.4e-3), case(8192, 5e-3, cache="paged"), case(1024, 9e-3, execution="eager"),
            case(1024, 9e-3, attention="naive"), case(1024, 9e-3, batch=8), case(65536, None, status="oom")]})
        self.write("torch_attention.json", {"rows": [
            {"length": 2048, "backend": "FLASH_ATTENTION", "seconds": 1.0, "flops_per_s": 1.0},
            {"length": 8192, "backend": "FLASH_ATTENTION", "seconds": 4.3e-4, "flops_per_s": 1.279e15},
            {"length": 8192, "backend": "CUDNN_ATTENTION", "seconds": 3.5e-4, "flops_per_s": 1.571e15}]})
        self.write("kernel_times.json", {"decode": {"kernel_s": 0.0768, "pass_s": 0.08, "gaps": 0.04}})
        self.steps("")

    def write(self, name, content):
        (self.folder / name).write_text(json.dumps(content))

    def steps(self, text):
        (self.folder / "steps.tsv").write_text(text)

    def table(self):
        """Cells of each target's line."""
        ran = subprocess.run([sys.executable, SCRIPT, self.folder, self.folder / "steps.tsv"], capture_output=True, text=True,
                             check=True)
        heading, *lines = ran.stdout.splitlines()
        starts = [heading.index(name) for name in ("target", "measured", "ceiling", "ratio", "wanted")]
        ends = starts[1:] + [starts[-1] + len(">= 0.90")]
        rows = [[line[a:b].strip() for a, b in zip(starts, ends)] + [line[ends[-1]:].strip()] for line in lines]
        self.assertEqual([row[0] for row in rows], NAMES)
        return {row[0]: row[1:] for row in rows}

    def test_every_ratio_is_that_of_the_files(self):
        self.assertEqual(self.table(), dict(zip(NAMES, [
            ["3700 GB/s (batch:16/context:4096)", "4000 GB/s", "0.925", ">= 0.90", "met"],
            ["70.5 us (batch:1/context:65536)", "69.8 us", "0.990", ">= 0.98", "met"],
            ["3600 GB/s (gate_up/rows:8)", "4000 GB/s", "0.900", ">= 0.93", "missed"],
            ["3250 GB/s (attention_out/rows:1)", "4000 GB/s", "0.812", ">= 0.80", "met"],
            ["5.000 ms (depth 8192, paged:64)", "4.000 ms", "0.800", ">= 0.80", "met"],
            ["1100 TFLOP/s", "1279 TFLOP/s", "0.860", ">= 0.85", "met"],
            ["1100 TFLOP/s", "1571 TFLOP/s", "0.700", "", ""],
            ["76.800 ms of kernels", "80.000 ms", "0.040", "<= 0.05", "met"]])))

    def test_just_below_is_missed(self):
        self.write("kernel_times.json", {"decode": {"kernel_s": 0.0759, "pass_s": 0.08}})
        self.write("kernels.json", {"benchmarks": [decode(1, "contiguous", 268e6, 0.899)]})
        table = self.table()
        self.assertEqual(table[NAMES[0]][-1], "missed")
        self.assertEqual(table[NAMES[7]][2:], ["0.051", "<= 0.05", "missed"])

    def test_a_step_that_did_not_run_is_the_reason(self):
        for name in ("ceilings.json", "kernels.json", "gpu-decode.json", "torch_attention.json", "kernel_times.json"):
            (self.folder / name).unlink()
        self.steps("ceilings\tcut off\thalf\nkernel-benchmarks\tleft out\tonly 3 s were left\ndecode-fused\tfailed 2\tno memory\n"
                   "torch-attention\tnot here\tno PyTorch\n")
        reasons = [row[-1] for row in self.table().values()]
        kernel_reason = "kernel-benchmarks left out: only 3 s were left"
        self.assertEqual(set(reasons[:4]), {kernel_reason})
        self.assertEqual(reasons[4:], ["decode-fused failed 2: no memory", kernel_reason, kernel_reason,
                                       "kernel-times did not run"])
        self.assertEqual({row[0] for row in self.table().values()}, {"not measured"})
        self.write("kernels.json", {"benchmarks": kernels()})
        reasons = [row[-1] for row in self.table().values()]
        self.assertEqual(reasons[0], "ceilings cut off: half")
        self.assertEqual(reasons[5], "torch-attention not here: no PyTorch")

    def test_rows_with_errors_and_broken_files_are_the_reason(self):
        self.write("kernels.json", {"benchmarks": [
            decode(1, "contiguous", 268e6, 1, error_occurred=True, error_message="not run: interrupted")]})
        self.write("gpu-decode.json", {"ceilings": None, "results": []})
        (self.folder / "torch_attention.json").write_text('{"rows": [')
        self.write("kernel_times.json", {"decode": {"pass_s": 0, "kernel_s": 1}})
        reasons = [row[-1] for row in self.table().values()]
        self.assertEqual(reasons[:2], ["not run: interrupted"] * 2)
        self.assertEqual(reasons[2], "kernels.json has no such entry")
        self.assertEqual(reasons[4], "read_bytes_per_s of gpu-decode.json is None")
        self.assertEqual(reasons[7], "pass_s of kernel_times.json is 0")
        self.write("kernels.json", {"benchmarks": kernels()})
        self.assertEqual(self.table()[NAMES[5]][-1], "torch_attention.json is no JSON")

    def test_a_backend_that_cannot_run_says_why(self):
        self.write("torch_attention.json", {"rows": [{"length": 8192, "backend": "FLASH_ATTENTION", "reason": "no kernel"}]})
        self.assertEqual(self.table()[NAMES[5]][-1], "no kernel")
        self.assertEqual(self.table()[NAMES[6]][-1], "torch_attention.json has no CUDNN_ATTENTION")

    def test_a_ceiling_that_is_no_number_gives_no_ratio(self):
        for value in (None, 0, float("nan")):
            self.write("ceilings.json", {"ceilings": {"read_bytes_per_s": value}})
            self.assertEqual(self.table()[NAMES[0]][0], "not measured")


if __name__ == "__main__":
    unittest.main()
