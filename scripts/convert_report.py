#!/usr/bin/env python3
"""Writes a kvlab report in forms that other programs read: CSV, a Markdown table, Google Benchmark's JSON.

  scripts/convert_report.py results/local/first/report.json --to csv -o first.csv
  scripts/convert_report.py report.json --to markdown
  scripts/convert_report.py before.json --to google-benchmark -o before.gbench.json    # for its compare.py

csv: a line per case; every configured axis, metric and status, by the names of docs/report.md.
markdown: a line per case with the numbers that are read first.
google-benchmark: a repetition per round of the time to first token, the prefill, and the mean decode step.
Exit codes: 0 done, 2 the request was wrong.
"""
import argparse
import csv
import io
import json
import sys

SCHEMA = "kvlab.report/1"
MARKDOWN_COLUMNS = [  # heading, path in a result, factor, decimals
    ("batch", "case.workload.batch", 1, 0),
    ("depth", "case.workload.depth", 1, 0),
    ("prompt", "case.workload.prompt_tokens", 1, 0),
    ("gen", "case.workload.gen_tokens", 1, 0),
    ("TTFT ms", "metrics.latency.ttft_s.p50", 1e3, 1),
    ("prefill tok/s", "metrics.prefill.tokens_per_s", 1, 1),
    ("step ms", "metrics.latency.step_s.p50", 1e3, 2),
    ("decode tok/s", "metrics.decode.tokens_per_s", 1, 1),
    ("mbu %", "metrics.decode.mbu", 100, 1),
    ("KV MB", "metrics.kv.used_bytes", 1e-6, 2),
]
ALWAYS_SHOWN_AXES = ("cache", "attention", "heads")


class WrongReport(Exception):
    """The file is not what it should be."""


def read_report(path):
    try:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
    except OSError as error:
        raise WrongReport(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise WrongReport(f"{path} is not a kvlab report: it is not JSON ({error})") from error
    if not isinstance(report, dict) or report.get("schema") != SCHEMA or not isinstance(report.get("results"), list):
        raise WrongReport(f'{path} is not a kvlab report: "schema" is not "{SCHEMA}"')
    return report


def value_at(row, path):
    for key in path.split("."):
        if not isinstance(row, dict) or key not in row:
            return None
        row = row[key]
    return row


def flattened(value, path):
    """(path, scalar) pairs. Intervals become .low and .high; other lists belong to no cell and are left out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flattened(inner, f"{path}.{key}")
    elif path.endswith(".ci95"):
        low, high = value if value else (None, None)
        yield f"{path}.low", low
        yield f"{path}.high", high
    elif not isinstance(value, list):
        yield path, value


def to_csv(report):
    rows = []
    columns = {}  # a dict keeps the order of first appearance
    for result in report["results"]:
        row = {"status": result["status"], "reason": result.get("reason")}
        for part in ("case", "metrics"):
            if isinstance(result.get(part), dict):
                row.update(flattened(result[part], part))
        rows.append(row)
        columns.update(dict.fromkeys(sorted(row, key=lambda name: not name.startswith("case."))))
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def shown_axes(results):
    """The axes that tell the cases of this report apart, after those that are always named; "attention" names both
    phases."""
    axes = list(ALWAYS_SHOWN_AXES)
    for result in results:
        for name, value in result["case"]["variant"].items():
            differs = any(other["case"]["variant"].get(name) != value for other in results)
            if differs and name not in axes and not name.endswith("_attention"):
                axes.append(name)
    return axes


def markdown_line(cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n"


def to_markdown(report):
    results = report["results"]
    axes = shown_axes(results)
    headings = ["model", *axes, *(heading for heading, *_ in MARKDOWN_COLUMNS), "status"]
    text = markdown_line(headings)
    text += markdown_line(["---"] * (1 + len(axes)) + ["---:"] * len(MARKDOWN_COLUMNS) + ["---"])
    for result in results:
        case = result["case"]
        cells = [case["model"], *(case["variant"].get(axis, "") for axis in axes)]
        for _, path, factor, decimals in MARKDOWN_COLUMNS:
            value = value_at(result, path)
            cells.append("" if value is None else f"{value * factor:.{decimals}f}")
        text += markdown_line([*cells, result["status"]])
    return text


def benchmark_name(case):
    """Everything in the case, as Google Benchmark names arguments, so that equal names are equal cases."""
    parts = [case["model"]]
    for group in (case["variant"], case["workload"], {key: case.get(key) for key in ("device", "threads", "seed")}):
        parts += [f"{key}:{value}" for key, value in group.items()]
    return "/".join(parts)


def repetitions(name, family, threads, round_s, iterations):
    for index, seconds in enumerate(round_s):
        yield {
            "name": name, "family_index": family, "per_family_instance_index": 0, "run_name": name,
            "run_type": "iteration", "repetitions": len(round_s), "repetition_index": index, "threads": threads,
            "iterations": iterations, "real_time": seconds * 1e6, "cpu_time": seconds * 1e6, "time_unit": "us",
        }


def to_google_benchmark(report):
    environment = report.get("environment") or {}
    context = {
        "date": environment.get("read_utc"), "executable": "kvlab",
        "num_cpus": value_at(environment, "cpu.logical_cores"), "mhz_per_cpu": value_at(environment, "clocks.cpu_mhz"),
        "load_avg": environment.get("load_average") or [], "library_build_type": "release",
        "remark": "wall clock; cpu_time repeats real_time, for kvlab does not measure it",
    }
    benchmarks = []
    for result in report["results"]:
        if result["status"] != "ok":
            continue
        samples, name = result["samples"], benchmark_name(result["case"])
        steps = [round_s for round_s in samples["step_s"] if round_s]
        timed = (("ttft", samples["ttft_s"], 1), ("prefill", samples["prefill_s"], 1),
                 ("decode_step", [sum(round_s) / len(round_s) for round_s in steps], len(steps[0]) if steps else 0))
        for phase, round_s, iterations in timed:
            family = benchmarks[-1]["family_index"] + 1 if benchmarks else 0
            benchmarks += repetitions(f"{name}/{phase}", family, result["case"].get("threads"), round_s, iterations)
    return json.dumps({"context": context, "benchmarks": benchmarks}, indent=2, allow_nan=False) + "\n"


CONVERSIONS = {"csv": to_csv, "markdown": to_markdown, "google-benchmark": to_google_benchmark}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", metavar="REPORT", help="a report.json, or what kvlab run --json wrote")
    parser.add_argument("--to", required=True, choices=CONVERSIONS, help="the form to write")
    parser.add_argument("-o", metavar="FILE", dest="output", help="where to; default: standard output")
    arguments = parser.parse_args()
    try:
        text = CONVERSIONS[arguments.to](read_report(arguments.report))
    except WrongReport as error:
        parser.exit(2, f"convert_report.py: {error}\n")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        parser.exit(2, f"convert_report.py: {arguments.report} is not a whole kvlab report: {error!r}\n")
    if arguments.output is None:
        sys.stdout.write(text)
        return
    try:
        with open(arguments.output, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError as error:
        parser.exit(2, f"convert_report.py: {arguments.output}: {error.strerror}\n")


if __name__ == "__main__":
    main()
