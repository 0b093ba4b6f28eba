"""The drawing scripts on a report that the program itself has just measured, and on reports that lack things.

Needs KVLAB_BINARY (the built program) and matplotlib; exit code 77 says that one of them is not there.
"""

import copy
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from plots import environment  # noqa: E402
from plots.report_data import read_report  # noqa: E402

BINARY = os.environ.get("KVLAB_BINARY", "")
PLOTS = {"step_latency", "step_distribution", "prefill", "decode_bandwidth_by_context", "decode_bandwidth_by_batch",
         "kv_memory", "roofline", "speed_up"}
SWEEP = {"name": "sample", "models": ["toy"],
         "axes": {"cache": ["none", "contiguous", "paged"], "prompt_tokens": [4, 16], "gen_tokens": [6],
                  "batch": [1, 2]},
         "rounds": {"min": 3, "max": 3, "target_ci": 0.02, "budget_s": 60}}
N_CASES = 12


def why_not():
    """What is missing, or ""."""
    if not os.access(BINARY, os.X_OK):
        return "KVLAB_BINARY does not name the built program"
    if not all(map(importlib.util.find_spec, ("matplotlib", "numpy", "jinja2"))):
        return "matplotlib and Jinja2 are missing; scripts/setup.sh makes .venv with them"
    return ""


def run(script, *arguments, scripts=ROOT / "scripts", python=()):
    return subprocess.run([sys.executable, *python, scripts / script, *arguments], capture_output=True, text=True,
                          timeout=240, check=False)


MEASURED = {}  # the report, measured once for all tests


def setUpModule():
    with tempfile.TemporaryDirectory() as name:
        sweep = Path(name) / "sweep.json"
        sweep.write_text(json.dumps(SWEEP), encoding="utf-8")
        subprocess.run([BINARY, "sweep", sweep, "--out", f"{name}/out", "--threads", "1"], check=True,
                       capture_output=True, timeout=240)
        MEASURED.update(json.loads(Path(name, "out", "report.json").read_text(encoding="utf-8")))


class Folder(unittest.TestCase):
    """A fresh folder for each test, and a report to change and to put into it."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.measured = copy.deepcopy(MEASURED)

    def put(self, report):
        (self.folder / "report.json").write_text(json.dumps(report), encoding="utf-8")

    def pictures(self, suffix):
        return {path.stem for path in (self.folder / "plots").glob(f"*.{suffix}") if path.stat().st_size > 1000}


class Plot(Folder):
    def test_everything_is_drawn_from_a_report_that_has_everything(self):
        self.put(self.measured)
        ran = run("plot.py", self.folder)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(self.pictures("png"), PLOTS)
        self.assertEqual(self.pictures("svg"), PLOTS)
        self.assertNotIn("left out", ran.stdout)

    def test_what_the_data_cannot_show_is_named_with_the_reason(self):
        report = self.measured
        report["results"] = report["results"][:1]  # no cache, one workload
        report["results"].append(copy.deepcopy(report["results"][0]))
        report["results"][1]["case"]["variant"]["prune"] = "last_layer"
        report["ceilings"] = None
        self.put(report)
        plots = self.folder / "plots"
        plots.mkdir()
        (plots / "kv_memory.png").write_text("of an earlier report")
        ran = run("plot.py", self.folder)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        left_out = dict(re.findall(r"^left out (\w+): (.+)$", ran.stdout, re.MULTILINE))
        self.assertEqual(set(left_out), {"prefill", "decode_bandwidth_by_context", "decode_bandwidth_by_batch",
                                         "kv_memory", "roofline"})
        self.assertIn("prompt_tokens", left_out["prefill"])
        self.assertIn("KV cache", left_out["kv_memory"])
        self.assertIn("ceilings", left_out["roofline"])
        self.assertEqual(self.pictures("svg"), PLOTS - set(left_out))
        self.assertFalse((plots / "kv_memory.png").exists())

    def test_a_report_without_a_measured_case_draws_nothing(self):
        report = self.measured
        for result in report["results"]:
            result.update(status="failed", reason="another output", metrics=None, samples=None)
        self.put(report)
        ran = run("report.py", self.folder)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(set(re.findall(r"left out (\w+):", ran.stdout)), PLOTS)
        self.assertEqual(self.pictures("svg"), set())

    def test_prefill_alone_has_no_decode_pictures(self):
        report = self.measured
        for result in report["results"]:
            result["case"]["workload"]["gen_tokens"] = 1
            result["samples"]["step_s"] = [[] for _ in result["samples"]["step_s"]]
            result["metrics"]["decode"] = dict.fromkeys(result["metrics"]["decode"])
        self.put(report)
        ran = run("plot.py", self.folder)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(self.pictures("svg"), {"prefill", "kv_memory", "roofline", "speed_up"})

    def test_each_model_has_pictures_of_its_own(self):
        report = self.measured
        report["results"] = [copy.deepcopy(report["results"][0]) for _ in range(4)]
        for number, result in enumerate(report["results"]):
            result["case"]["model"] = f"model-{number // 2}"
            result["case"]["variant"]["prune"] = ("none", "last_layer")[number % 2]
        self.put(report)
        ran = run("plot.py", self.folder)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertLessEqual({"speed_up_1", "speed_up_2", "roofline_1", "roofline_2"}, self.pictures("svg"))


class WrongInput(Folder):
    def refused(self, arguments, word):
        for script in ("plot.py", "report.py"):
            ran = run(script, *arguments)
            self.assertEqual(ran.returncode, 2, f"{script} {arguments}: {ran.stdout}{ran.stderr}")
            self.assertIn(word, ran.stderr)
            self.assertNotIn("Traceback", ran.stderr)

    def test_it_is_refused_with_the_reason(self):
        self.refused([], "DIR")
        self.refused(["--colour", self.folder], "--colour")
        self.refused([self.folder / "nowhere"], "report.json does not exist")
        for text, word in (("{", "no JSON"), ("[]", "schema"), ('{"schema": "kvlab.report/0"}', "kvlab.report/1"),
                           ('{"schema": "kvlab.report/1", "name": "x"}', "docs/report.md")):
            (self.folder / "report.json").write_text(text, encoding="utf-8")
            self.refused([self.folder], word)
        report = self.measured
        report["results"] = []
        self.put(report)
        self.refused([self.folder], "holds no case")

    def test_help_needs_nothing(self):
        for script in ("plot.py", "report.py"):
            ran = run(script, "--help")
            self.assertEqual(ran.returncode, 0)
            self.assertIn("report.json", ran.stdout)

    def test_a_missing_matplotlib_is_said_with_the_way_out(self):
        self.put(self.measured)
        scripts = self.folder / "elsewhere" / "scripts"  # no .venv beside it, and -S hides installed packages
        shutil.copytree(ROOT / "scripts", scripts)
        for script in ("plot.py", "report.py"):
            ran = run(script, self.folder, scripts=scripts, python=("-S",))
            self.assertEqual(ran.returncode, 1)
            self.assertIn("scripts/setup.sh", ran.stderr)


class Page(Folder):
    def test_it_holds_each_case_once_and_refers_to_nothing_outside(self):
        report = self.measured
        report["results"][3].update(status="failed", reason="id <7> where the reference chose 3")
        self.put(report)
        ran = run("report.py", self.folder)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        page = (self.folder / "report.html").read_text(encoding="utf-8")
        self.assertEqual(sorted(map(int, re.findall(r'<tr id="case-(\d+)">', page))), list(range(1, N_CASES + 1)))
        self.assertIn("id &lt;7&gt; where the reference chose 3", page)
        self.assertEqual(set(re.findall(r'<figure id="(\w+)">', page)), PLOTS)
        self.assertEqual(page.count('src="data:image/svg+xml;base64,'), len(PLOTS))
        references = re.findall(r'(?:src|href)\s*=\s*"([^"]*)"|url\(([^)]*)\)|@import', page)
        self.assertTrue(all(link.startswith(("#", "data:")) for link, _ in references), references)
        self.assertNotRegex(page, r"https?://|<script|<link|<iframe")
        self.assertIn('name="viewport"', page)
        self.shows_numbers_of_the_report(page)

    def test_the_fit_of_prefill_times_stands_under_the_table(self):
        report = self.measured
        estimate = {"value": 1.25e-8, "low": 1.2e-8, "high": 1.3e-8}
        lengths = [512, 1024, 2048, 4096]
        report["fits"] = [{"case": report["results"][0]["case"], "prompt_tokens": lengths, "a_s": estimate,
                           "b_s_per_token": estimate, "c_s_per_token2": estimate, "relative_error": 0.01,
                           **{key: [0.1, 0.2, 0.3, 0.4567] for key in ("prefill_s", "fitted_s", "quadratic_share",
                                                                       "attention_share")}}]
        self.put(report)
        ran = run("report.py", self.folder)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        page = (self.folder / "report.html").read_text(encoding="utf-8")
        self.assertIn("c, ns per token²: <strong>12.50</strong>", page)
        self.assertIn("(12.00 to 13.00, 95 %)", page)
        self.assertRegex(page, r"attention, % of the FLOPs</th>.*<td>45\.67</td>")

    def shows_numbers_of_the_report(self, page):
        paged = next(n for n, result in enumerate(self.measured["results"], start=1)
                     if result["case"]["variant"]["cache"] == "paged")
        row = re.search(rf'<tr id="case-{paged}">.*?</tr>', page).group(0)
        waste = self.measured["results"][paged - 1]["metrics"]["kv"]["waste_fraction"]
        shown = [float(value.replace(",", "")) for value in re.findall(r"<td>([\d.,]+)</td>", row)]
        self.assertTrue(any(abs(value - 100 * waste) < 0.01 for value in shown), row)


class Numbers(Folder):
    """What the pictures show, computed apart from drawing."""

    def setUp(self):
        super().setUp()
        self.put(self.measured)
        self.report = read_report(self.folder)

    def test_phases_share_the_work_of_a_round(self):
        for case in self.report.measured:
            work, phases = case.metrics["work"], [case.metrics[phase] for phase in ("prefill", "decode")]
            self.assertEqual(sum(phase["flops"] for phase in phases), work["gemm_flops"] + work["attention_flops"])
            self.assertEqual(sum(phase["bytes"] for phase in phases),
                             work["weight_bytes"] + work["kv_read_bytes"] + work["kv_write_bytes"])

    def test_points_lie_under_the_roof_that_the_picture_draws(self):
        from plots.roofline import points_of
        for case in self.report.measured:
            for phase, (intensity, gflops_per_s) in points_of(case).items():
                peak = self.report.ceiling("gemm_flops_per_s", case.settings["weight_dtype"])
                roof = min(intensity * self.report.ceiling("read_bytes_per_s"), peak)
                metrics = case.metrics[phase]
                self.assertAlmostEqual(metrics["attainable_flops_per_s"] / roof, 1, places=9)
                self.assertAlmostEqual(metrics["attained_share"] * roof / 1e9 / gflops_per_s, 1, places=9)

    def test_ratios_are_taken_within_a_round(self):
        from plots.speedup import speed_up
        base, own = self.report.measured[:2]
        base.samples["prefill_s"], own.samples["prefill_s"] = [1, 8, 2, 4], [0.5, 4, 1, 2]  # a machine that drifts
        self.assertEqual(speed_up(base, own, "prefill"), (2, 2, 2))
        own.samples["prefill_s"] = [0.5, 4, 1, 1]
        median, low, high = speed_up(base, own, "prefill")
        self.assertEqual((median, low, high), (2, 2, 4))

    def test_case_numbers_are_told_as_ranges(self):
        from plots.page import ranges
        self.assertEqual([ranges(numbers) for numbers in ([4], [1, 2, 3], [1, 3, 4, 9])], ["4", "1–3", "1, 3–4, 9"])

    def test_the_reference_variant_is_the_base_wherever_it_stands(self):
        from plots.speedup import reference_of
        cases = self.report.measured
        cases[5].settings.update(cache="none", attention="naive", heads="model", prune="none", kv_dtype="f32")
        self.assertIs(reference_of(cases), cases[5])
        cases[5].settings["prune"] = "last_layer"
        self.assertIs(reference_of(cases), cases[0])

    def test_every_case_is_in_one_line_of_one_panel(self):
        from plots.groups import Groups
        for most in (1, 2, 4, 12):
            groups = Groups(self.report, self.report.measured, max_lines=most)
            self.assertLessEqual(max(map(len, groups.panels.values())), most)
            shown = [case.number for lines in groups.panels.values() for cases in lines.values() for case in cases]
            self.assertEqual(len(shown), len(set(shown)))
            self.assertEqual(len(shown), N_CASES - groups.left_out)


if __name__ == "__main__":
    environment.use_venv()
    missing = why_not()
    if missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    unittest.main()
