"""Step latency: against the position, and as a distribution."""

import numpy as np

from . import style
from .groups import Groups
from .report_data import LeftOut


def cases_with_steps(report, fewest):
    cases = [case for case in report.measured if case.n_steps >= fewest]
    if not cases:
        raise LeftOut(f"no measured case has {fewest} decode steps or more (gen_tokens of {fewest + 1})")
    return cases


def step_latency(report):
    """A line a variant; prompts of other lengths continue it, because only the position matters."""
    groups = Groups(report, cases_with_steps(report, 4), without=("prompt_tokens", "gen_tokens", "depth"),
                    keep=("cache", "page_size"), max_lines=6)
    figure, grid = style.panels(len(groups.panels))
    for axes, (title, lines) in zip(grid, groups.panels.items()):
        highest = 0
        for text, cases in lines.items():
            look = {key: groups.looks[text][key] for key in ("color", "linestyle")}
            for number, case in enumerate(cases):
                low, median, high = np.percentile(case.samples["step_s"], [25, 50, 75], axis=0) * 1e3
                positions = case.first_position + np.arange(case.n_steps)
                axes.plot(positions, median, label=text if number == 0 else None, linewidth=1.8, **look)
                axes.fill_between(positions, low, high, color=look["color"], alpha=0.13, linewidth=0)
                highest = max(highest, np.percentile(median, 99) * 1.25)
        axes.set_ylim(0, highest)
        axes.set(title=title, xlabel="position (tokens before it)", ylabel="step latency (ms)")
        style.plain_ticks(axes.yaxis)
    return style.finish(figure, "Step latency by position", report,
                        groups.note("Line: median of the rounds. Band: middle half of the rounds"))


def step_distribution(report):
    """A box a case over all steps of all rounds."""
    groups = Groups(report, cases_with_steps(report, 2), keep=("cache", "attention"), max_lines=16)
    n_rows = max(len(lines) for lines in groups.panels.values())
    figure, grid = style.panels(len(groups.panels), height=0.95 + 0.32 * n_rows, columns=1)
    for axes, (title, lines) in zip(grid, groups.panels.items()):
        steps = [np.concatenate([np.ravel(case.samples["step_s"]) for case in cases]) * 1e3 for cases in lines.values()]
        rows = np.arange(len(steps))
        boxes = axes.boxplot(steps, positions=rows, vert=False, widths=0.62, whis=(5, 95), patch_artist=True,
                             showfliers=False, medianprops={"color": "black", "linewidth": 1.6})
        for box, cases in zip(boxes["boxes"], lines.values()):
            box.set(facecolor=style.CACHE_COLOURS.get(cases[0].settings["cache"], style.GREY), alpha=0.6, linewidth=0.8)
        axes.scatter([values.max() for values in steps], rows, marker="|", color="black", s=45, zorder=3)
        axes.set_yticks(rows, list(lines))
        axes.invert_yaxis()
        if max(values.max() for values in steps) > 4 * min(np.median(values) for values in steps):
            axes.set_xscale("log")
            style.plain_ticks(axes.xaxis, log=True)
        else:
            axes.set_xlim(left=0)
        axes.set(title=title, xlabel="step latency (ms)")
        axes.grid(axis="y", visible=False)
    return style.finish(figure, "Distribution of step latency", report, legend=False, note=groups.note(
        "Box: middle half and median. Whiskers: 5th and 95th percentile. Stroke: slowest step"))
