"""scripts/convert_report.py on a small report: what each form must say, and what is refused."""
import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "convert_report.py"


def result(cache, status="ok"):
    ok = status == "ok"
    metrics = {
        "prefill": {"tokens_per_s": 1600.0, "mfu": None},
        "decode": {"tokens_per_s": 250.04, "mbu": 0.5},
        "latency": {"ttft_s": {"p50": 0.02, "ci95": [0.019, 0.021]}, "step_s": {"p50": 0.004, "ci95": None}},
        "kv": {"used_bytes": 9007199254740993},
        "work": {"attention_dots": [1, 2]},
    }
    return {
        "case": {"model": "models/a|b.gguf",
                 "variant": {"cache": cache, "attention": "naive", "heads": "model", "page_size": 16},
                 "workload": {"batch": 1, "depth": 0, "prompt_tokens": 32, "gen_tokens": 3},
                 "device": "cpu", "threads": 2, "seed": 1},
        "status": status, "reason": None if ok else 'says "no", twice',
        "samples": {"ttft_s": [0.02, 0.03], "prefill_s": [0.019, 0.029], "step_s": [[0.004, 0.006], [0.004, 0.004]]}
        if ok else {"ttft_s": [], "prefill_s": [], "step_s": []},
        "metrics": metrics if ok else None,
    }


def report():
    return {"schema": "kvlab.report/1", "name": "test", "results": [result("none"), result("paged"),
                                                                    result("qkv", "skipped")],
            "environment": {"cpu": {"logical_cores": 2}, "load_average": [0.5, 0.4, 0.3],
                            "read_utc": "2026-01-02T03:04:05Z"}}


class ConvertReport(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name) / "report.json"

    def convert(self, form, content=None, *more):
        self.path.write_text(json.dumps(report() if content is None else content), encoding="utf-8")
        return subprocess.run([sys.executable, str(SCRIPT), str(self.path), "--to", form, *more],
                              capture_output=True, text=True, check=False)

    def test_csv_has_every_scalar_of_every_case(self):
        rows = list(csv.DictReader(io.StringIO(self.convert("csv").stdout)))
        self.assertEqual([row["case.variant.cache"] for row in rows], ["none", "paged", "qkv"])
        self.assertEqual(rows[0]["metrics.kv.used_bytes"], "9007199254740993")  # not through float64
        self.assertEqual(rows[0]["metrics.latency.ttft_s.ci95.low"], "0.019")
        self.assertEqual(rows[0]["metrics.latency.step_s.ci95.high"], "")
        self.assertEqual(rows[0]["metrics.prefill.mfu"], "")
        self.assertEqual(rows[2]["reason"], 'says "no", twice')
        self.assertEqual(rows[2]["metrics.decode.tokens_per_s"], "")
        self.assertEqual(next(iter(rows[0])), "case.model")

    def test_markdown_is_a_table_of_one_width(self):
        lines = self.convert("markdown").stdout.splitlines()
        self.assertEqual(len(lines), 2 + 3)
        bars = {line.replace("\\|", "").count("|") for line in lines}
        self.assertEqual(len(bars), 1)
        self.assertIn("models/a\\|b.gguf", lines[2])
        self.assertIn("| 20.0 | 1600.0 | 4.00 | 250.0 | 50.0 |", lines[2])
        self.assertNotIn("page_size", lines[0])  # the same in all cases
        self.assertIn("skipped", lines[4])

    def test_google_benchmark_has_what_its_compare_needs(self):
        converted = json.loads(self.convert("google-benchmark").stdout)
        benchmarks = converted["benchmarks"]
        self.assertEqual(len(benchmarks), 2 * 3 * 2)  # cases, phases, rounds; the skipped case has none
        self.assertEqual(len({entry["name"] for entry in benchmarks}), 2 * 3)
        for entry in benchmarks:
            self.assertEqual((entry["run_type"], entry["time_unit"], entry["repetitions"]), ("iteration", "us", 2))
            self.assertEqual(entry["run_name"], entry["name"])
            self.assertGreater(entry["cpu_time"], 0)
        step = [entry for entry in benchmarks if entry["name"].endswith("/decode_step")][0]
        self.assertAlmostEqual(step["real_time"], 5000.0)
        self.assertEqual(step["iterations"], 2)
        self.assertIn("/cache:none/", step["name"])
        self.assertIn("/threads:2/", step["name"])
        self.assertEqual(converted["context"]["num_cpus"], 2)

    def test_writes_to_a_file(self):
        target = pathlib.Path(self.folder.name) / "out.csv"
        self.assertEqual(self.convert("csv", None, "-o", str(target)).stdout, "")
        self.assertEqual(target.read_text(encoding="utf-8"), self.convert("csv").stdout)

    def test_refuses_what_is_no_report(self):
        broken = report()
        del broken["results"][0]["status"]
        for content in ([], {"schema": "other"}, {"schema": "kvlab.report/1"}, broken):
            for form in ("csv", "markdown", "google-benchmark"):
                run = self.convert(form, content)
                self.assertEqual(run.returncode, 2, run.stderr)
                self.assertIn("report", run.stderr)
                self.assertEqual(run.stdout, "")
        self.assertEqual(self.convert("xml").returncode, 2)
        missing = subprocess.run([sys.executable, str(SCRIPT), "/no/such.json", "--to", "csv"], capture_output=True,
                                 text=True, check=False)
        self.assertEqual(missing.returncode, 2)
        self.assertIn("/no/such.json", missing.stderr)


if __name__ == "__main__":
    unittest.main()
