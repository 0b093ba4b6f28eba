#!/usr/bin/env python3
"""Runs a few small entries of kvlab-kernels and checks their counters: there, finite, positive. No time is judged.

usage: counters_test.py PROGRAM
"""

import json
import math
import os
import subprocess
import sys
import tempfile

MODEL = "smollm2-135m"
# Names up to the cache axis; False: the operation only moves data and has no FLOPs.
ENTRIES = {
    f"matmul/{MODEL}/qkv/rows:1/f32": True,
    f"matmul/{MODEL}/qkv/rows:8/bf16": True,
    f"attention_naive/{MODEL}/decode/context:128/contiguous/f32": True,
    f"attention_fused/{MODEL}/decode/context:128/paged/bf16": True,
    f"append/{MODEL}/rows:128/paged/f32": False,
    f"rms_norm/{MODEL}/rows:128": True,
    f"layer_norm/{MODEL}/rows:128": True,
    f"rope/{MODEL}/rows:128": True,
    f"silu_multiply/{MODEL}/rows:1": True,
    f"gelu/{MODEL}/rows:1": True,
    f"embed/{MODEL}/rows:1/bf16": False,
    f"gather_rows/{MODEL}/rows:128": False,
}
COLD_TOO = f"matmul/{MODEL}/qkv/rows:1/f32"


def ask(program, *arguments):
    return subprocess.run([program, "--device=cpu", "--threads=1", *arguments], capture_output=True, text=True)


def positive(value):
    return isinstance(value, (int, float)) and math.isfinite(value) and value > 0


def failures_of_counters(program):
    names = [f"{name}/warm" for name in ENTRIES] + [f"{COLD_TOO}/cold"]
    ran = ask(
        program,
        f"--benchmark_filter=^({'|'.join(names)})/omp:1/",
        "--benchmark_min_time=0.001",
        "--benchmark_format=json",
    )
    if ran.returncode != 0:
        return [f"exit code {ran.returncode}: {ran.stderr}"]
    rows = {row["name"]: row for row in json.loads(ran.stdout)["benchmarks"]}
    failures = []
    for name in names:
        row = rows.pop(f"{name}/omp:1/real_time", None)
        if row is None or row.get("error_occurred"):
            failures.append(f"{name}: {row}")
            continue
        counters = ["bytes_per_s", "ceiling_fraction", "real_time"]
        if ENTRIES[name.rsplit("/", 1)[0]]:
            counters.append("flops_per_s")
        elif "flops_per_s" in row:
            failures.append(f"{name} has FLOPs")
        failures += [f"{name}: {c} is {row.get(c)}" for c in counters if not positive(row.get(c))]
        if not row.get("label", "").startswith("of "):
            failures.append(f"{name} does not say which ceiling: {row.get('label')}")
    return failures + [f"{name} was not asked for" for name in rows]


def failures_of_flags(program):
    failures = []
    explained = ask(program, "--help")
    if explained.returncode != 0 or "--benchmark_filter" not in explained.stdout:
        failures.append("--help does not teach")
    wrong = ["--no-such-flag", "word", "--threads=0", "--device=tpu", "--benchmark_min_time=abc", "--benchmark_filter=no_such_name"]
    for argument in wrong:
        answer = ask(program, argument)
        if answer.returncode != 2 or "error:" not in answer.stderr:
            failures.append(f"{argument}: exit code {answer.returncode}, {answer.stderr!r}")
    listed = set(ask(program, "--benchmark_list_tests=true").stdout.split())
    operations = {name.split("/")[0] for name in listed}
    failures += [f"{name} is not in the list" for name in ENTRIES if name.split("/")[0] not in operations]
    return failures


def failures_of_emulation(program):
    """The CUDA entries run on an emulated device: every one goes through, and none has a time."""
    ran = subprocess.run([program, "--device=cuda-emulated", "--benchmark_format=json"], capture_output=True, text=True)
    if ran.returncode != 0:
        return [f"emulated: exit code {ran.returncode}: {ran.stderr}"]
    rows = json.loads(ran.stdout)["benchmarks"]
    failures = [
        f"{row['name']}: {row.get('error_message')}"
        for row in rows
        if row.get("error_message") != "ran; this device has no clock"
    ]
    for part in ["cuda/gemv/tiny/qkv/rows:3/bf16/own/cold", "cuda/gemv/tiny/down/rows:1/f32/cublas/warm",
                 "/decode/batch:2/context:32/paged:16/bf16/cold", "/prefill/batch:1/context:32/contiguous/f32/warm"]:
        if not any(part in row["name"] for row in rows):
            failures.append(f"emulated: no entry {part}")
    return failures


def failures_of_an_interrupt(program):
    """SIGTERM while an entry runs: whole JSON, in which what did not finish is an error."""
    names = [f"{name}/{cache}" for name in ENTRIES for cache in ("cold", "warm")]
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        with subprocess.Popen([program, "--device=cpu", "--threads=1", f"--benchmark_filter=^({'|'.join(names)})/omp:1/",
                               "--benchmark_min_time=60", f"--benchmark_out={out}", "--benchmark_out_format=json"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
            running.stderr.readline()  # the heading: the handler stands
            running.terminate()
            running.communicate(timeout=60)
        if running.returncode != 130:
            return [f"interrupted: exit code {running.returncode}"]
        with open(out, encoding="utf-8") as file:
            rows = json.load(file)["benchmarks"]
    if len(rows) != len(names) or any(row.get("error_message") != "not run: interrupted" for row in rows):
        return [f"interrupted: {rows}"]
    return []


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = sys.argv[1]
    failures = failures_of_flags(program) + failures_of_counters(program) + failures_of_emulation(program)
    failures += failures_of_an_interrupt(program)
    for failure in failures:
        print("FAIL:", failure)
    if not failures:
        print("counters and flags are as they should be")
    sys.exit(1 if failures else 0)


main()
