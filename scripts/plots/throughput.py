"""What the phases reach: the prefill against prompt length, decode bandwidth against context and batch."""

import statistics

from . import style
from .groups import Groups
from .report_data import LeftOut


def line_plot(axes, lines, looks, x_of, y_of):
    """A line a group of cases, through its cases in the order of x; returns all (x, y)."""
    drawn = []
    for text, cases in lines.items():
        points = sorted((x_of(case), y_of(case)) for case in cases)
        axes.plot(*zip(*points), label=text, linewidth=1.6, markersize=5, **looks[text])
        drawn += points
    return drawn


def ceiling_line(axes, value, text):
    if value:
        axes.axhline(value, color="black", linewidth=1.2, linestyle=(0, (6, 2)), label=text)


def several(cases, axis, what):
    """Cases, when they have more than one value on the axis."""
    values = {case.settings[axis] for case in cases}
    if len(values) < 2:
        raise LeftOut(f"all measured cases have the same {what} ({axis}: {values.pop():,})" if values
                      else "no case was measured")
    return cases


def product_ceilings(axes, report, lines):
    """A line a weight type of the panel; returns the highest ceiling in GFLOP/s."""
    highest = 0
    for dtype in sorted({case.settings["weight_dtype"] for cases in lines.values() for case in cases}):
        ceiling = (report.ceiling("gemm_flops_per_s", dtype) or 0) / 1e9
        ceiling_line(axes, ceiling, f"measured ceiling of {dtype} products")
        highest = max(highest, ceiling)
    return highest


def prefill(report):
    """Time to first token, and the FLOP/s of the prefill, against prompt length."""
    cases = several(report.measured, "prompt_tokens", "prompt length")
    groups = Groups(report, cases, without=("prompt_tokens", "gen_tokens"), keep=("attention", "cache"), max_lines=8)
    figure, grid = style.panels(2 * len(groups.panels))
    for number, (title, lines) in enumerate(groups.panels.items()):
        latency, rate = grid[2 * number:2 * number + 2]
        times = line_plot(latency, lines, groups.looks, lambda case: case.settings["prompt_tokens"],
                          lambda case: statistics.median(case.samples["ttft_s"]) * 1e3)
        latency.set_yscale("log")
        rates = line_plot(rate, lines, groups.looks, lambda case: case.settings["prompt_tokens"],
                          lambda case: case.metrics["prefill"]["flops_per_s"] / 1e9)
        style.ceiling_scale(rate, product_ceilings(rate, report, lines), [y for _, y in rates])
        style.plain_ticks(latency.yaxis, log=True)
        for axes, unit in ((latency, "time to first token (ms)"), (rate, "prefill (GFLOP/s)")):
            style.token_ticks(axes, [x for x, _ in times])
            axes.set(title=title, xlabel="prompt (tokens)", ylabel=unit)
    return style.finish(figure, "Prefill by prompt length", report, groups.note("Medians of the rounds"))


def middle_context(case):
    """Positions that the middle decode step sees."""
    return case.first_position + (case.n_steps + 1) / 2


def bandwidth(report, x_axis, x_of, without, title, xlabel):
    cases = [case for case in report.measured if case.n_steps > 0 and case.metrics["decode"]["bytes_per_s"]]
    if not cases:
        raise LeftOut("no measured case has a decode step")
    groups = Groups(report, several(cases, x_axis, "context" if x_axis != "batch" else "batch"), without=without,
                    keep=("cache", "attention"), max_lines=8)
    figure, grid = style.panels(len(groups.panels))
    for axes, (name, lines) in zip(grid, groups.panels.items()):
        points = line_plot(axes, lines, groups.looks, x_of, lambda case: case.metrics["decode"]["bytes_per_s"] / 1e9)
        ceiling = (report.ceiling("read_bytes_per_s") or 0) / 1e9
        ceiling_line(axes, ceiling, "measured ceiling of reading")
        style.ceiling_scale(axes, ceiling, [y for _, y in points])
        style.token_ticks(axes, [x for x, _ in points])
        axes.set(title=name, xlabel=xlabel, ylabel="decode bandwidth (GB/s)")
    return style.finish(figure, title, report,
                        groups.note("Bytes by convention: weights used, once a step, + KV read + KV written"))


def bandwidth_by_context(report):
    depths = {case.settings["depth"] for case in report.measured}
    axis = "depth" if len(depths) > 1 else "prompt_tokens"
    return bandwidth(report, axis, middle_context, ("prompt_tokens", "gen_tokens", "depth"),
                     "Decode bandwidth by context", "context of the middle step (tokens)")


def bandwidth_by_batch(report):
    return bandwidth(report, "batch", lambda case: case.settings["batch"], ("batch",),
                     "Decode bandwidth by batch", "batch (sequences)")
