"""The list of plots, and drawing all that a report has data for."""

from pathlib import Path

from . import latency, memory, roofline, speedup, style, throughput
from .report_data import LeftOut

PLOTS = {
    "step_latency": latency.step_latency,
    "step_distribution": latency.step_distribution,
    "prefill": throughput.prefill,
    "decode_bandwidth_by_context": throughput.bandwidth_by_context,
    "decode_bandwidth_by_batch": throughput.bandwidth_by_batch,
    "kv_memory": memory.kv_memory,
    "roofline": roofline.roofline,
    "speed_up": speedup.speed_ups,
}


def draw_all(report, folder):
    """Draws into `folder`, for each model apart: ({name: path of the SVG}, {name: why it was left out})."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    drawn, left_out = {}, {}
    models = report.by_model()
    for number, part in enumerate(models, start=1):
        for plot, draw in PLOTS.items():
            name = plot if len(models) == 1 else f"{plot}_{number}"
            for old in (folder / f"{name}.png", folder / f"{name}.svg"):
                old.unlink(missing_ok=True)  # a picture of an earlier report would be believed
            try:
                drawn[name] = style.save(draw(part), folder, name)
            except LeftOut as reason:
                left_out[name] = str(reason)
    return drawn, left_out
