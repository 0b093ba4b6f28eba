"""Every phase of every case against the ceilings that the same run measured."""

import numpy as np

from . import style
from .groups import Groups
from .report_data import WORKLOAD_AXES, LeftOut

PHASES = {"prefill": "^", "decode": "o"}


def points_of(case):
    """{phase: (FLOP/byte, GFLOP/s)}, without phases that were not run."""
    phases = {phase: case.metrics[phase] for phase in PHASES}
    return {phase: (metrics["intensity"], metrics["flops_per_s"] / 1e9)
            for phase, metrics in phases.items() if metrics["intensity"] and metrics["flops_per_s"]}


def draw_roofs(axes, report, cases, intensities):
    """The roof of each weight type: bandwidth times intensity up to the ceiling of products."""
    bandwidth = report.ceiling("read_bytes_per_s")
    x = np.geomspace(min(intensities) / 2, max(intensities) * 2, 200)
    for dtype, line in zip(sorted({case.settings["weight_dtype"] for case in cases}), ("-", "--")):
        peak = report.ceiling("gemm_flops_per_s", dtype)
        axes.plot(x, np.minimum(x * bandwidth, peak) / 1e9, color="black", linestyle=line, linewidth=1.5,
                  label=f"attainable: {bandwidth / 1e9:.3g} GB/s, {peak / 1e9:.3g} GFLOP/s ({dtype})")


def roofline(report):
    if not report.ceiling("read_bytes_per_s") or not report.ceiling("gemm_flops_per_s"):
        raise LeftOut("the report has no ceilings")
    cases = [case for case in report.measured if points_of(case)]
    if not cases:
        raise LeftOut("no case was measured")
    groups = Groups(report, cases, without=WORKLOAD_AXES, keep=("cache", "attention"), max_lines=8)
    figure, grid = style.panels(len(groups.panels), height=4.0)
    everything = [point for case in cases for point in points_of(case).values()]
    intensities = [x for x, _ in everything]
    for axes, (title, lines) in zip(grid, groups.panels.items()):
        draw_roofs(axes, report, cases, intensities)
        for phase, marker in PHASES.items():
            axes.scatter([], [], marker=marker, color="white", edgecolor=style.GREY, s=42, label=phase)
        for text, members in lines.items():
            look = {"color": groups.faces[text]}
            axes.plot([], [], linewidth=6, label=text, **look)
            for phase, marker in PHASES.items():
                points = [points_of(case)[phase] for case in members if phase in points_of(case)]
                if points:
                    axes.scatter(*zip(*points), marker=marker, s=46, alpha=0.85, edgecolor="white", linewidth=0.6,
                                 zorder=3, **look)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(bottom=min(y for _, y in everything) / 2)
        style.plain_ticks(axes.xaxis, log=True)
        style.plain_ticks(axes.yaxis, log=True)
        axes.set(title=title, xlabel="intensity (FLOP/byte)", ylabel="attained (GFLOP/s)")
    return style.finish(figure, "Roofline of both phases", report, groups.note(
        "Ceilings measured in the same run. Caches of the CPU are not modelled: small models can lie above the slope"))
