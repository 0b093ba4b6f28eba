"""The profiling scripts' command lines, seen by stand-ins for nsys and ncu that record their arguments."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASE = ["--device", "cuda", "--model", "toy", "--prompt-tokens", "5", "--gen-tokens", "8"]
RECORDER = '#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done > "$RECORD"\nexit ${STATUS:-0}\n'


class Session(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        self.kvlab = self.folder / "kvlab"
        self.write_program(self.kvlab)

    def write_program(self, path):
        path.write_text(RECORDER, encoding="utf-8")
        path.chmod(0o755)

    def run_script(self, script, *arguments, tool=True, status=0):
        """What the script says, its exit code, and the words that the tool was given."""
        name = script.removeprefix("profile_")
        if tool:
            self.write_program(self.tools / name)
        record = self.folder / "record"
        environment = {**os.environ, "PATH": f"{self.tools}:/usr/bin:/bin", "RECORD": str(record), "STATUS": str(status)}
        ran = subprocess.run([ROOT / "scripts" / f"{script}.sh", "--kvlab", self.kvlab, *arguments], capture_output=True,
                             text=True, check=False, env=environment, cwd=self.folder)
        return ran, record.read_text(encoding="utf-8").splitlines() if record.exists() else None

    def value_of(self, words, option):
        self.assertEqual(words.count(option), 1, f"{option} in {words}")
        return words[words.index(option) + 1]

    def assert_refused(self, script, *arguments, saying, tool=True):
        ran, words = self.run_script(script, *arguments, tool=tool)
        self.assertEqual(ran.returncode, 2, ran.stderr)
        self.assertIn(saying, ran.stderr)
        self.assertIsNone(words, "the tool ran")


class Nsys(Session):
    def test_a_gpu_case_is_recorded_between_the_profiler_calls(self):
        ran, words = self.run_script("profile_nsys", "--out", "mine", "--", *CASE, "--profile", "decode:2..3")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(words[0], "profile")
        self.assertEqual(self.value_of(words, "--capture-range"), "cudaProfilerApi")
        self.assertEqual(self.value_of(words, "--capture-range-end"), "stop")
        self.assertEqual(self.value_of(words, "--cuda-graph-trace"), "node")
        self.assertLessEqual({"cuda", "nvtx"}, set(self.value_of(words, "--trace").split(",")))
        self.assertEqual(self.value_of(words, "--output"), "mine")
        self.assertEqual(words[words.index(str(self.kvlab)):],
                         [str(self.kvlab), "run", *CASE, "--profile", "decode:2..3"])
        self.assertIn("mine.nsys-rep", ran.stdout)

    def test_a_cpu_case_is_recorded_in_the_range_that_marks_the_window(self):
        for case in (CASE[2:], ["--device=cpu", *CASE[2:]]):
            ran, words = self.run_script("profile_nsys", "--out", "mine", "--", *case, "--profile=prefill")
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertEqual(self.value_of(words, "--capture-range"), "nvtx")
            self.assertEqual(self.value_of(words, "--nvtx-capture"), "profile@kvlab")
            self.assertEqual(words[-1], "--profile=prefill")

    def test_without_a_window_the_first_decode_steps_are_recorded(self):
        _, words = self.run_script("profile_nsys", "--out", "mine", "--", *CASE)
        self.assertEqual(words[-2:], ["--profile", "decode:1..4"])

    def test_the_tools_failure_is_the_scripts(self):
        ran, _ = self.run_script("profile_nsys", "--out", "mine", "--", *CASE, status=3)
        self.assertEqual(ran.returncode, 3)
        self.assertNotIn("the report is", ran.stdout)


class Ncu(Session):
    def test_the_window_is_measured_with_the_counters_and_untouched_clocks(self):
        ran, words = self.run_script("profile_ncu", "--out", "mine", "--", *CASE, "--profile", "prefill")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(self.value_of(words, "--clock-control"), "none")
        self.assertEqual(self.value_of(words, "--profile-from-start"), "off")
        self.assertEqual(self.value_of(words, "--graph-profiling"), "node")
        counters = self.value_of(words, "--metrics").split(",")
        self.assertLessEqual({"dram__bytes_read.sum", "dram__bytes_write.sum", "sm__inst_executed_pipe_tensor.sum",
                              "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"}, set(counters))
        self.assertIn("--set", words)
        self.assertNotIn("--nvtx-include", words)
        self.assertEqual(words[words.index(str(self.kvlab)):], [str(self.kvlab), "run", *CASE, "--profile", "prefill"])

    def test_layer_and_operation_become_a_filter_of_ranges(self):
        _, words = self.run_script("profile_ncu", "--out", "mine", "--layer", "3", "--operation",
                                   "output projection + residual", "--", *CASE)
        self.assertEqual(self.value_of(words, "--nvtx-include"), "kvlab@layer 3/output projection \\+ residual/")
        _, words = self.run_script("profile_ncu", "--out", "mine", "--operation", "LM head", "--", *CASE)
        self.assertEqual(self.value_of(words, "--nvtx-include"), "kvlab@LM head/")

    def test_kernels_are_chosen_by_name_and_number(self):
        _, words = self.run_script("profile_ncu", "--out", "mine", "--kernel", "attention_decode", "--count", "2", "--",
                                   *CASE)
        self.assertEqual(self.value_of(words, "--kernel-name"), "regex:attention_decode")
        self.assertEqual(self.value_of(words, "--launch-count"), "2")
        self.assertEqual(words[-2:], ["--profile", "decode:1..1"])

    def test_what_it_cannot_do_is_refused(self):
        self.assert_refused("profile_ncu", "--", *CASE[2:], saying="--device cuda")
        self.assert_refused("profile_ncu", "--layer", "1", "--", *CASE, "--execution", "graph", saying="one range")
        self.assert_refused("profile_ncu", "--layer", "one", "--", *CASE, saying="--layer 'one'")
        self.assert_refused("profile_ncu", "--count", "0", "--", *CASE, saying="--count '0'")


class Both(Session):
    SCRIPTS = ("profile_nsys", "profile_ncu")

    def test_a_missing_tool_is_explained(self):
        for script in self.SCRIPTS:
            self.assert_refused(script, "--", *CASE, saying="is missing", tool=False)
            self.assert_refused(script, "--", *CASE, saying="--kernel-times", tool=False)

    def test_a_request_that_makes_no_sense_is_refused(self):
        for script in self.SCRIPTS:
            self.assert_refused(script, saying="after --")
            self.assert_refused(script, "--", saying="after --")
            self.assert_refused(script, "--out", saying="--out needs a value")
            self.assert_refused(script, "--", *CASE, "--json", "x.json", saying="no measurement")
            self.assert_refused(script, "--kvlab", "no/such/program", "--", *CASE, saying="no/such/program")


if __name__ == "__main__":
    unittest.main()
