"""KV memory by variant: what is used, what is reserved for nothing, and the page tables."""

from . import style
from .report_data import LeftOut, label

MAX_BARS = 20
# Settings that cannot change what a cache holds.
INDIFFERENT = ("attention", "logits", "prune", "projection", "execution", "sampling", "prefill_chunk", "weight_dtype")
UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))


def bars_of(report):
    """[(label, kv metrics)], each distinct bar once; of the largest workloads when all would be too many."""
    cases = [case for case in report.measured if case.metrics["kv"]["reserved_bytes"] > 0]
    if not cases:
        raise LeftOut("no measured case keeps a KV cache")
    axes = [axis for axis in report.varying(report.measured) if axis not in INDIFFERENT] or ["cache"]
    cases.sort(key=lambda case: case.metrics["kv"]["used_bytes"])  # stable: variants stay in the file's order
    bars = {label(case, axes): case.metrics["kv"] for case in cases}
    return list(bars.items())[-MAX_BARS:], max(0, len(bars) - MAX_BARS)


def unit_of(n_bytes):
    return next((size, name) for size, name in UNITS if n_bytes >= size or size == 1)


def human_bytes(n_bytes):
    size, name = unit_of(n_bytes)
    return f"{n_bytes / size:.3g} {name}"


def kv_memory(report):
    bars, n_hidden = bars_of(report)
    size, unit = unit_of(max(kv["reserved_bytes"] + kv["table_bytes"] for _, kv in bars))
    figure, (axes,) = style.panels(1, height=0.9 + 0.36 * len(bars))
    rows = range(len(bars))
    used = [kv["used_bytes"] / size for _, kv in bars]
    waste = [(kv["reserved_bytes"] - kv["used_bytes"]) / size for _, kv in bars]
    table = [kv["table_bytes"] / size for _, kv in bars]
    axes.barh(rows, used, color="#0072B2", label="used by tokens")
    axes.barh(rows, waste, left=used, color="#E69F00", hatch="///", edgecolor="white", linewidth=0, label="waste")
    starts = [a + b for a, b in zip(used, waste)]
    axes.barh(rows, table, left=starts, color="#000000", label="page tables")
    longest = max(start + length for start, length in zip(starts, table))
    for row, (_, kv), start, length in zip(rows, bars, starts, table):
        words = [human_bytes(kv["reserved_bytes"]), f"{100 * (kv['waste_fraction'] or 0):.0f} % waste"]
        if kv["table_bytes"]:
            words.append(f"table {human_bytes(kv['table_bytes'])}")
        axes.text(start + length + 0.012 * longest, row, ", ".join(words), va="center", fontsize=9.5)
    axes.set_xlim(0, longest * 1.8)  # room for the words at the longest bar
    axes.set_yticks(rows, [text for text, _ in bars])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    style.plain_ticks(axes.xaxis)
    axes.set_xlabel(f"KV memory at the end of a round ({unit})")
    note = f"{n_hidden} smaller ones are in the report" if n_hidden else None
    return style.finish(figure, "KV memory by variant", report, note, legend_columns=3)
