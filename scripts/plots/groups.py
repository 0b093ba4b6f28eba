"""Sharing cases out over panels and lines, so that no panel holds more than a reader can tell apart."""

from . import style
from .report_data import VARIANT_AXES, WORKLOAD_AXES, label

# Axes that become panels first, when a panel would hold too many lines.
TO_PANELS = ("weight_dtype", "kv_dtype", "depth", "batch", "gen_tokens", "execution", "sampling", "projection",
             "logits", "prefill_chunk", "kv_capacity", "prompt_tokens", "prune", "heads", "attention", "page_size",
             "cache")


class Groups:
    """panels: {title: {line label: [cases]}}; left_out: how many panels were too many to draw."""

    def __init__(self, report, cases, without=(), keep=(), max_lines=7):
        """`without`: axes that a line runs along, or that do not matter; `keep`: stay lines as long as possible."""
        axes = [axis for axis in report.varying(cases) if axis not in without]
        self.panel_axes = []
        order = [axis for axis in TO_PANELS if axis not in keep] + [axis for axis in TO_PANELS if axis in keep]
        while most_lines(cases, self.panel_axes, axes) > max_lines:
            moved = next(axis for axis in order if axis in axes)
            axes.remove(moved)
            self.panel_axes.append(moved)
        for axis in list(self.panel_axes):  # one that moved early may fit after all
            others = [other for other in self.panel_axes if other != axis]
            if most_lines(cases, others, [*axes, axis]) <= max_lines:
                self.panel_axes, axes = others, [*axes, axis]
        axes.sort(key=(VARIANT_AXES + WORKLOAD_AXES).index)
        self.line_axes = axes or [axis for axis in report.variant_axes() if axis not in without] or ["cache"]
        self.panel_axes = report.varying(cases, self.panel_axes)
        shared = {}
        for case in cases:
            lines = shared.setdefault(label(case, self.panel_axes), {})
            lines.setdefault(label(case, self.line_axes), []).append(case)
        self.left_out = max(0, len(shared) - style.MAX_PANELS)
        self.panels = dict(list(shared.items())[:style.MAX_PANELS])
        self.looks, self.faces = line_looks(self)

    def note(self, text=None):
        """`text`, and how many panels are not shown."""
        more = f"{self.left_out} more groups are in the report" if self.left_out else None
        return ". ".join(part for part in (text, more) if part) or None


def most_lines(cases, panel_axes, line_axes):
    lines = {}
    for case in cases:
        lines.setdefault(case.key(panel_axes), set()).add(case.key(line_axes))
    return max(len(keys) for keys in lines.values())


def line_looks(groups):
    """Two dicts by line label: the look of lines, and the colour of areas. Where caches are compared, they give it."""
    firsts = {text: cases[0] for lines in groups.panels.values() for text, cases in lines.items()}
    caches = {case.settings["cache"] for case in firsts.values()}
    each = [sum(case.settings["cache"] == cache for case in firsts.values()) for cache in caches]
    by_cache = len(caches) > 1 and max(each) <= len(style.LINES)
    looks, faces, used = {}, {}, {}
    for number, (text, case) in enumerate(firsts.items()):
        cache = case.settings["cache"]
        variety = used[cache] = used.get(cache, -1) + 1
        colour = style.CACHE_COLOURS.get(cache, "#000000") if by_cache else style.COLOURS[number % 7]
        shade = (variety if by_cache else number // 7) % len(style.LINES)
        looks[text] = {"color": colour, "linestyle": style.LINES[shade], "marker": style.MARKERS[number % 7]}
        faces[text] = style.lighter(colour, 0.25 * shade)
    return looks, faces
