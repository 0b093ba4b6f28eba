"""The content of the HTML page: rows of the table, warnings told once, the machine; the template lays it out."""

import base64
import json
import math
from pathlib import Path

import jinja2

from .report_data import WORKLOAD_AXES

# heading, path in a result's metrics, factor to the heading's unit
COLUMNS = (
    ("TTFT, ms", "latency.ttft_s.p50", 1e3),
    ("prefill, tokens/s", "prefill.tokens_per_s", 1),
    ("prefill, GFLOP/s", "prefill.flops_per_s", 1e-9),
    ("MFU, %", "prefill.mfu", 100),
    ("step, ms", "latency.step_s.p50", 1e3),
    ("95 % interval, ms", "latency.step_s.ci95", 1e3),
    ("step p99, ms", "latency.step_s.p99", 1e3),
    ("growth", "latency.step_growth", 1),
    ("growth, µs per cached token", "latency.step_slope_s_per_token.value", 1e6),
    ("decode, tokens/s", "decode.tokens_per_s", 1),
    ("decode, GB/s", "decode.bytes_per_s", 1e-9),
    ("MBU, %", "decode.mbu", 100),
    ("decode share, %", "latency.decode_share", 100),
    ("KV used, MB", "kv.used_bytes", 1e-6),
    ("KV waste, %", "kv.waste_fraction", 100),
    ("KV peak, MB", "kv.peak_bytes", 1e-6),
    ("workspace, MB", "kv.workspace_bytes", 1e-6),
)
TITLES = {
    "step_latency": "Step latency by position",
    "step_distribution": "Distribution of step latency",
    "prefill": "Prefill by prompt length",
    "decode_bandwidth_by_context": "Decode bandwidth by context",
    "decode_bandwidth_by_batch": "Decode bandwidth by batch",
    "kv_memory": "KV memory by variant",
    "roofline": "Roofline of both phases",
    "speed_up": "Speed-up over the reference",
}


def title_of(name):
    """"kv_memory_2" -> "KV memory by variant": the number is that of the model."""
    return TITLES.get(name) or TITLES[name.rpartition("_")[0]]


def number(value):
    """Four significant digits, all digits before the point."""
    decimals = 3 if value == 0 else max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 6)}f}"


def cell(metrics, path, factor):
    value = metrics
    for key in path.split("."):
        value = (value or {}).get(key)
    if value is None:
        return "–"
    return " to ".join(number(end * factor) for end in value) if isinstance(value, list) else number(value * factor)


def table_of(report):
    """The table of one model: headings, and a row a case."""
    varying = report.varying(report.cases)
    axes = [axis for axis in WORKLOAD_AXES if axis in varying or axis in ("prompt_tokens", "gen_tokens")]
    used = [column for column in COLUMNS if any(cell(case.metrics, *column[1:]) != "–" for case in report.cases)]
    rows = [{
        "number": case.number,
        "variant": report.variant_label(case),
        "status": case.status,
        "reason": case.reason,
        "workload": [f"{case.settings[axis]:,}" for axis in axes],
        "cells": [cell(case.metrics, *column[1:]) for column in used],
        "rounds": len(case.samples["ttft_s"]) if case.measured else 0,
    } for case in report.cases]
    return {"model": Path(report.model).name, "axes": [axis.removesuffix("_tokens") for axis in axes],
            "headings": [column[0] for column in used], "rows": rows}


def fits_of(document):
    """The parabolas of prefill time by prompt length: coefficients with their intervals, and a row a quantity."""
    coefficients = (("a, ms", "a_s", 1e3), ("b, µs per token", "b_s_per_token", 1e6),
                    ("c, ns per token²", "c_s_per_token2", 1e9))
    rows = (("measured, s", "prefill_s", 1), ("fitted, s", "fitted_s", 1),
            ("c n², % of the time", "quadratic_share", 100),
            ("attention, % of the FLOPs", "attention_share", 100))
    return [{
        "model": Path(fit["case"]["model"]).name,
        "cache": fit["case"]["variant"]["cache"],
        "attention": fit["case"]["variant"]["attention"],
        "lengths": [f"{length:,}" for length in fit["prompt_tokens"]],
        "coefficients": [(name, number(fit[key]["value"] * factor),
                          f"{number(fit[key]['low'] * factor)} to {number(fit[key]['high'] * factor)}")
                         for name, key, factor in coefficients],
        "rows": [(name, [number(value * factor) for value in fit[key]]) for name, key, factor in rows],
    } for fit in document.get("fits", [])]


def warnings_of(report):
    """[(warning, "1–4, 7": the cases that carry it)]: the same words are said once."""
    shared = {}
    for case in report.cases:
        for warning in case.warnings:
            shared.setdefault(warning, []).append(case.number)
    return [(warning, ranges(numbers)) for warning, numbers in shared.items()]


def ranges(numbers):
    """[1, 2, 3, 7] -> "1–3, 7"; the numbers are ascending."""
    runs = []
    for value in numbers:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)


def flattened(value, name=""):
    """[(dotted name, text)] of nested objects; null stays visible as a dash."""
    if isinstance(value, dict) and value:
        return [pair for key, part in value.items() for pair in flattened(part, f"{name}.{key}" if name else key)]
    if isinstance(value, list):
        plain = all(not isinstance(part, (dict, list)) for part in value)
        return [(name, " ".join(map(str, value)) if plain else
                 "; ".join(" ".join(str(v) for v in part.values()) for part in value))]
    return [(name, "–" if value is None else f"{value:,}" if isinstance(value, int) and not isinstance(value, bool)
             else f"{value:,.4g}" if isinstance(value, float) else str(value))]


def picture(path):
    return "data:image/svg+xml;base64," + base64.b64encode(Path(path).read_bytes()).decode("ascii")


def fixed_settings(report):
    """[(axis, value)] of what all cases share."""
    varying = report.varying(report.cases)
    axes = [axis for axis in report.cases[0].settings if axis not in varying
            and axis not in ("prefill_attention", "decode_attention") and report.cases[0].settings[axis] is not None]
    return [(axis, report.cases[0].settings[axis]) for axis in axes]


def render(report, drawn, left_out):
    """The whole page, with every picture inside."""
    templates = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True,
                                   trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    parts = report.by_model()
    return templates.get_template("page.html.j2").render(
        name=report.name,
        subtitles=[part.subtitle() for part in parts],
        read_utc=report.environment.get("read_utc"),
        n_cases=len(report.cases),
        n_measured=len(report.measured),
        tables=[table_of(part) for part in parts],
        fixed=fixed_settings(report),
        fits=fits_of(report.document),
        pictures=[(name, title_of(name), picture(path)) for name, path in drawn.items()],
        left_out=[(title_of(name), reason) for name, reason in left_out.items()],
        warnings=warnings_of(report),
        ceilings=flattened(report.ceilings) if report.ceilings else [],
        environment=flattened(report.environment),
        sweep=json.dumps(report.document["sweep"], indent=2) if report.document.get("sweep") else None,
    )
