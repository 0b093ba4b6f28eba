"""How much faster each variant is than the reference variant, with the interval that the rounds allow."""

import numpy as np

from . import style
from .report_data import LeftOut, WORKLOAD_AXES, label

N_DRAWS = 1000
MAX_PANELS = 6


def reference_of(cases):
    """The reference variant among cases of one workload, or the first of them."""
    return next((case for case in cases if case.is_reference), cases[0])


def seconds(case, phase):
    """Seconds of the phase in each round."""
    if phase == "prefill":
        return np.array(case.samples["prefill_s"])
    return np.array([sum(steps) for steps in case.samples["step_s"]])


def speed_up(reference, case, phase):
    """(median ratio, low, high): ratios are taken within a round; the 95 % interval draws whole rounds anew."""
    base, own = seconds(reference, phase), seconds(case, phase)
    n_rounds = min(len(base), len(own))
    ratios = base[:n_rounds] / own[:n_rounds]
    draws = np.random.default_rng(1).integers(0, n_rounds, size=(N_DRAWS, n_rounds))
    low, high = np.percentile(np.median(ratios[draws], axis=1), [2.5, 97.5])
    return float(np.median(ratios)), float(low), float(high)


def comparisons(report):
    """[(workload label, reference, its cases)] where there is something to compare."""
    axes = [axis for axis in report.varying(report.measured) if axis in (*WORKLOAD_AXES, "weight_dtype")]
    shared = {}
    for case in report.measured:
        shared.setdefault(label(case, axes), []).append(case)
    found = [(text, reference_of(cases), cases) for text, cases in shared.items() if len(cases) > 1]
    if not found:
        raise LeftOut("no workload was measured with two variants")
    return found


def draw_bars(axes, report, reference, cases, phase):
    rows = np.arange(len(cases))
    values, lows, highs = np.array([speed_up(reference, case, phase) for case in cases]).T
    colours = [style.CACHE_COLOURS.get(case.settings["cache"], style.GREY) for case in cases]
    axes.barh(rows, values - 1, left=1, color=colours, alpha=0.8, height=0.66)
    axes.errorbar(values, rows, xerr=[np.maximum(values - lows, 0), np.maximum(highs - values, 0)], fmt="none",
                  ecolor="black", elinewidth=1.3, capsize=3)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    least, most = min(*lows, 0.97), max(*highs, 1.03)
    span = most / least
    axes.set_xlim(least / span**0.06, most * span**0.28)  # room for the numbers
    for row, value, high in zip(rows, values, highs):
        axes.text(max(high, value, 1) * span**0.03, row, f"{value:.3g}", va="center", fontsize=9.5)
    style.plain_ticks(axes.xaxis, log=True)
    axes.set_yticks(rows, [report.variant_label(case) for case in cases])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)


def speed_ups(report):
    found = comparisons(report)
    shown = found[-MAX_PANELS:]  # the largest workloads come last in a sweep
    n_rows = max(len(cases) for _, _, cases in shown)
    figure, grid = style.panels(2 * len(shown), height=0.95 + 0.32 * n_rows)
    for number, (text, reference, cases) in enumerate(shown):
        for axes, phase in zip(grid[2 * number:2 * number + 2], ("prefill", "decode")):
            if phase == "decode" and cases[0].n_steps == 0:
                axes.set_visible(False)
                continue
            draw_bars(axes, report, reference, cases, phase)
            axes.set(title=", ".join(part for part in (phase, text) if part), xlabel="times as fast")
        if grid[2 * number + 1].get_visible():
            grid[2 * number + 1].set_yticklabels([])
    axes = [axis for axis in report.variant_axes() if axis != "weight_dtype"]  # panels differ in that one
    named = {label(reference, axes) for _, reference, _ in shown}
    note = "Median of the ratios within a round. Line: its 95 % interval over rounds"
    if len(found) > len(shown):
        note += f". {len(found) - len(shown)} more workloads are in the report"
    return style.finish(figure, f"Speed-up against {' or '.join(sorted(named))}", report, note, legend=False)
