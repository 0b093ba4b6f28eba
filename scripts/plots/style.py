"""How every picture looks: colours that colour-blind readers can tell apart, sizes, titles, panels, files."""

import math
import textwrap

import matplotlib
import matplotlib.colors

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter  # noqa: E402

# Okabe and Ito's palette, without its yellow, which white paper swallows.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
CACHE_COLOURS = {"none": "#D55E00", "contiguous": "#0072B2", "paged": "#009E73", "qkv": "#CC79A7"}
LINES = ["-", "--", ":", "-."]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
GREY = "#666666"
MAX_PANELS = 9

plt.rcParams.update({
    "figure.dpi": 100, "savefig.dpi": 160, "font.size": 11, "axes.titlesize": 11, "axes.labelsize": 11,
    "legend.fontsize": 10, "xtick.labelsize": 10, "ytick.labelsize": 10, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "#dddddd", "grid.linewidth": 0.6,
    "axes.axisbelow": True, "legend.frameon": False, "svg.hashsalt": "kvlab", "svg.fonttype": "path",
})


def panels(n, width=7.2, height=3.5, columns=2):
    """A figure with `n` panels side by side and below each other: (figure, [axes])."""
    columns = min(columns, n)
    rows = math.ceil(n / columns)
    figure, grid = plt.subplots(rows, columns, figsize=(width if columns == 1 else width * 1.35, height * rows),
                                squeeze=False)
    used = list(grid.flat)
    for axes in used[n:]:
        axes.set_visible(False)
    return figure, used[:n]


def finish(figure, title, report, note=None, legend=True, legend_columns=2):
    """Title, subtitle, note and one legend for all panels, in room of their own that is added to the figure."""
    entries = {}
    for axes in figure.axes:
        for handle, text in zip(*axes.get_legend_handles_labels()):
            entries.setdefault(text, handle)
    subtitle, note = wrapped(report.subtitle(), figure), wrapped(note or "", figure)
    columns = 1 if any(len(text) > 42 for text in entries) else legend_columns
    rows = math.ceil(len(entries) / columns) if legend else 0
    top = 0.5 + 0.18 * len(subtitle)                      # inches above the panels
    note_height = 0.12 + 0.18 * len(note) if note else 0  # below the legend
    bottom = note_height + (0.16 + 0.23 * rows if rows else 0)
    height = figure.get_figheight() + top + bottom
    figure.set_figheight(height)
    figure.tight_layout(rect=(0, bottom / height, 1, 1 - top / height), h_pad=1.6, w_pad=1.8)
    left = 0.15 / figure.get_figwidth()
    figure.text(left, 1 - 0.1 / height, title, fontsize=14, fontweight="bold", va="top")
    figure.text(left, 1 - 0.4 / height, "\n".join(subtitle), fontsize=10, color=GREY, va="top")
    figure.text(left, 0.08 / height, "\n".join(note), fontsize=9.5, color=GREY, va="bottom")
    if rows:
        figure.legend(entries.values(), entries.keys(), loc="lower center", ncols=columns, handlelength=2.6,
                      bbox_to_anchor=(0.5, note_height / height), borderaxespad=0.2)
    return figure


def wrapped(text, figure):
    """Lines of the small print that fit the figure's width."""
    return textwrap.wrap(text, int(figure.get_figwidth() * 12.5))


def ceiling_scale(axes, ceiling, values):
    """A y axis from 0, or a logarithmic one where the ceiling is so far above that the lines would lie on the floor."""
    if ceiling and min(values) > 0 and ceiling > 8 * max(values):
        axes.set_yscale("log")
        axes.set_ylim(min(values) / 2, ceiling * 2)
        plain_ticks(axes.yaxis, log=True)
    else:
        axes.set_ylim(0, 1.1 * max(*values, ceiling or 0))
        plain_ticks(axes.yaxis)


def lighter(colour, share):
    """The colour mixed with white; share 0 leaves it as it is."""
    return tuple(part + (1 - part) * share for part in matplotlib.colors.to_rgb(colour))


def plain_number(value, _=None):
    """1500 -> "1,500", 0.02 -> "0.02": ticks without powers of ten."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def plain_ticks(axis, log=False):
    axis.set_major_formatter(FuncFormatter(plain_number))
    if log:
        low, high = axis.get_view_interval()
        decades = math.log10(high / low) if low > 0 else 3
        subs = (1.0,) if decades > 3 else (1.0, 3.0) if decades > 1.6 else (1.0, 2.0, 5.0)
        if decades < 0.9:
            subs = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
        axis.set_major_locator(LogLocator(base=10, subs=subs) if decades > 0.4 else MaxNLocator(5))
        axis.set_minor_formatter(NullFormatter())


def token_ticks(axes, values):
    """A logarithmic x axis that is marked at the values measured; at every second one where they are many."""
    axes.set_xscale("log")
    values = sorted(set(values))
    step = math.ceil(len(values) / 8)
    axes.set_xticks(values[::-step][::-1])
    axes.xaxis.set_major_formatter(FuncFormatter(plain_number))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
    if len(values) > 1:
        axes.set_xlim(values[0] / 1.15, values[-1] * 1.15)


def save(figure, folder, name):
    """PNG and SVG; returns the path of the SVG."""
    for suffix, metadata in (("png", None), ("svg", {"Date": None, "Creator": None})):
        figure.savefig(folder / f"{name}.{suffix}", metadata=metadata)
    plt.close(figure)
    return folder / f"{name}.svg"
