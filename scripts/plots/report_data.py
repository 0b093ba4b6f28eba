"""A report as the plots need it: its measured cases, what varies between them, and what to call each."""

import json
from pathlib import Path

SCHEMA = "kvlab.report/1"
WORKLOAD_AXES = ("batch", "depth", "kv_fill", "prompt_tokens", "gen_tokens")
# Settings that name a variant, in the order in which a label says them.
VARIANT_AXES = ("cache", "page_size", "kv_capacity", "attention", "heads", "execution", "logits", "prune", "projection",
                "sampling", "prefill_chunk", "weight_dtype", "kv_dtype")
PREFIXES = {"kv_capacity": "capacity ", "logits": "logits ", "prune": "prune ", "prefill_chunk": "chunk ",
            "weight_dtype": "weights ", "kv_dtype": "KV ", "batch": "batch ", "depth": "depth ",
            "kv_fill": "K and V by ", "prompt_tokens": "prompt ", "gen_tokens": "generated ", "sampling": "sampling on "}
SUFFIXES = {"heads": " heads", "projection": " projection"}


class BadReport(Exception):
    """The folder holds no report that can be read; the message says why."""


class LeftOut(Exception):
    """A plot cannot be drawn from this report; the message says what it lacks."""


class Case:
    """One measured row of a report. Settings are strings and integers by axis name."""

    def __init__(self, number, result):
        case = result["case"]
        self.number = number
        self.model = case["model"]
        self.status = result["status"]
        self.reason = result["reason"]
        self.warnings = result["warnings"]
        self.samples = result.get("samples")
        self.metrics = result.get("metrics")
        self.settings = {"kv_fill": "prefill", **case["variant"], **case["workload"]}
        prefill, decode = self.settings["prefill_attention"], self.settings["decode_attention"]
        self.settings["attention"] = prefill if prefill == decode else f"{prefill} then {decode}"
        if self.settings["cache"] != "paged":
            self.settings["page_size"] = None

    @property
    def measured(self):
        return self.status == "ok" and bool(self.samples and self.samples["ttft_s"])

    @property
    def n_steps(self):
        return self.settings["gen_tokens"] - 1

    @property
    def first_position(self):
        """Position of the first token that a decode step brings."""
        return self.settings["depth"] + self.settings["prompt_tokens"]

    @property
    def is_reference(self):
        """The variant that every output is compared with; its weights may have any type."""
        wanted = {"cache": "none", "attention": "naive", "heads": "model", "logits": "last", "prune": "none",
                  "projection": "fused", "execution": "eager", "kv_dtype": "f32"}
        return all(self.settings[axis] == value for axis, value in wanted.items())

    def key(self, axes):
        return tuple(self.settings[axis] for axis in axes)


class Report:
    """The cases of one model, with the machine that they ran on."""

    def __init__(self, document, cases):
        self.document = document
        self.name = document["name"]
        self.ceilings = document["ceilings"]
        self.environment = document["environment"]
        self.cases = cases
        self.model = cases[0].model if cases else None
        self.measured = [case for case in cases if case.measured]

    def varying(self, cases=None, axes=VARIANT_AXES + WORKLOAD_AXES):
        """Axes with more than one value among the cases."""
        cases = self.measured if cases is None else cases
        return [axis for axis in axes if len({case.settings[axis] for case in cases}) > 1]

    def variant_axes(self):
        """Axes that tell the variants of this report apart; cache and attention when there is only one variant."""
        return self.varying(self.cases, VARIANT_AXES) or ["cache", "attention"]

    def variant_label(self, case):
        return label(case, self.variant_axes())

    def by_model(self):
        """One report a model, in the order of the file."""
        models = list(dict.fromkeys(case.model for case in self.cases))
        return [Report(self.document, [case for case in self.cases if case.model == model]) for model in models]

    def ceiling(self, name, dtype=None):
        """A measured ceiling, or None where the report has none."""
        value = (self.ceilings or {}).get(name)
        return value.get(dtype) if dtype and value else value

    def subtitle(self):
        """Machine and model in a line."""
        cpu = self.environment["cpu"]
        gpu = self.environment.get("gpu")
        machine = gpu["name"] if isinstance(gpu, dict) and "name" in gpu else cpu["model"]
        threads = cpu["threads"]
        model = Path(self.model).name.removesuffix(".gguf")
        dtypes = sorted({case.settings["weight_dtype"] for case in self.cases})
        return (f"{model}, {' and '.join(dtypes)} weights; {machine}, {cpu['isa']}, "
                f"{threads} thread{'' if threads == 1 else 's'}")


def label(case, axes):
    """"paged 32, fused, mha heads": the settings of a case on these axes."""
    words = []
    for axis in axes:
        value = case.settings[axis]
        if axis == "page_size":
            if value is not None and words and "cache" in axes:
                words[-1] += f" {value}"
            elif value is not None:
                words.append(f"pages of {value}")
        else:
            words.append(f"{PREFIXES.get(axis, '')}{value:,}" if isinstance(value, int) else
                         f"{PREFIXES.get(axis, '')}{value}{SUFFIXES.get(axis, '')}")
    return ", ".join(words)


def read_report(folder):
    """The report of DIR/report.json. Raises BadReport."""
    path = Path(folder) / "report.json"
    if not path.is_file():
        raise BadReport(f"{path} does not exist; `kvlab sweep FILE --out {folder}` writes it")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadReport(f"{path}: no JSON: {error}") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise BadReport(f"{path}: schema is {schema!r}; this program reads {SCHEMA!r}")
    try:
        report = Report(document, [Case(n, result) for n, result in enumerate(document["results"], start=1)])
    except (KeyError, TypeError, AttributeError) as error:
        raise BadReport(f"{path}: not laid out as docs/report.md says: {type(error).__name__} {error}") from error
    if not report.cases:
        raise BadReport(f"{path}: it holds no case")
    return report
