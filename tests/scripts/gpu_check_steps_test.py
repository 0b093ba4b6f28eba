#!/usr/bin/env python3
"""Single steps of gpu_check: what is cut off keeps its report, files stay below 16 MiB, our libraries stay with our programs."""

import gzip
import json
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts" / "gpu_check"
MIB = 1024 * 1024
# A sweep whose report comes a second after SIGTERM, or at once. A case named "slow" waits for the signal.
KVLAB = """#!/bin/bash
echo "kvlab with $LD_LIBRARY_PATH" >>"$CALLS"
echo "$*" >>"$CALLS"
command=$1
while [ $# -gt 0 ]; do
  case "$1" in --out) folder=$2 ;; --filter=*) filters+=" ${1#--filter=}" ;; esac
  shift
done
mkdir -p "$folder"
report() {
  printf '{"report": "%s",\n "results": [\n{\n "status": "ok",\n"x": 1},\n{\n"status": "oom"},\n{\n "status": "ok"}]}\n' \\
    "$command$filters" >"$folder/report.json"
}
case "$filters" in
  *slow*) trap 'sleep 1; report; exit 130' TERM; echo measuring; while :; do sleep 0.05; done ;;
  *) report ;;
esac
"""
START = """set -euo pipefail
refuse() { echo "gpu_check: $1" >&2; exit 2; }
source "$bundle/gpu_check/steps.bash"
source "$bundle/gpu_check/measurements.bash"
deadline=$((SECONDS + LEFT))
"""
FINISH = '\nprintf "%s\\n" "${table[@]}"\nexit $failed\n'


class Step(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in ("bundle/bin", "tools", "out", "scratch"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "bundle/gpu_check").symlink_to(SCRIPTS)
        self.out = self.folder / "out"
        (self.out / "log.txt").touch()
        self.program("bundle/bin/kvlab", KVLAB)

    def program(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)

    def run_steps(self, commands, left=60):
        environment = {"PATH": f"{self.folder / 'tools'}:{os.environ['PATH']}", "bundle": self.folder / "bundle",
                       "kvlab": self.folder / "bundle/bin/kvlab", "out": self.out, "scratch": self.folder / "scratch",
                       "log": self.out / "log.txt", "library_path": "/ours", "LD_LIBRARY_PATH": "/theirs", "no_cupti": "",
                       "CALLS": self.folder / "calls", "LEFT": str(left)}
        ran = subprocess.run(["bash", "-c", START + commands + FINISH], env={k: str(v) for k, v in environment.items()},
                             capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(ran.stderr, "")
        return ran

    def report(self, name):
        return json.loads((self.out / name).read_text())["report"]

    def test_a_step_ends_when_it_takes_half_as_long_again_as_estimated(self):
        ran = self.run_steps("step nap 2 sleep 50\nstep next 1 echo went on")
        self.assertRegex(ran.stdout, r"nap +cut off +[34] s of about +2 s")
        self.assertRegex(ran.stdout, r"next +ok +\d s of about +1 s  went on")
        self.assertEqual(ran.returncode, 0)

    def test_a_step_that_does_not_fit_is_left_out(self):
        ran = self.run_steps("step nap 30 echo never", left=5)
        self.assertRegex(ran.stdout, r"nap +left out +0 s of about +30 s  only \d s were left")
        self.assertEqual((self.folder / "scratch/steps.tsv").read_text().split("\t")[:2], ["nap", "left out"])

    def test_a_cut_off_sweep_keeps_the_report_that_it_writes_a_second_later(self):
        ran = self.run_steps("step cells 1 sweep gpu-decode part attention=slow\nkeep_report gpu-decode")
        self.assertRegex(ran.stdout, r"cells +cut off .*cells of part: 2 ok, 1 oom")
        self.assertEqual(self.report("gpu-decode.json"), "sweep attention=slow")

    def test_parts_of_a_sweep_become_one_report(self):
        self.run_steps("step one 5 sweep gpu-decode a attention=fused execution=graph\nkeep_report gpu-decode\n"
                       "step two 5 sweep gpu-decode b attention=naive\nkeep_report gpu-decode")
        self.assertEqual(self.report("gpu-decode.json"), "merge")
        calls = (self.folder / "calls").read_text().splitlines()
        self.assertIn("--device cuda --quiet --filter=attention=fused --filter=execution=graph --out", calls[1])
        self.assertRegex(calls[5], r"^merge \S+/gpu-decode/a \S+/gpu-decode/b --out ")

    def test_a_sweep_without_a_report_leaves_no_file(self):
        self.program("bundle/bin/kvlab", "#!/bin/bash\nexit 1\n")
        ran = self.run_steps("step one 5 sweep gpu-decode a attention=fused\nkeep_report gpu-decode")
        self.assertEqual(ran.returncode, 1)
        self.assertFalse((self.out / "gpu-decode.json").exists())

    def test_only_our_programs_get_our_libraries(self):
        tool = '#!/bin/bash\necho "$(basename "$0") with $LD_LIBRARY_PATH" >>"$CALLS"\n'
        self.program("tools/python3", tool)
        self.program("tools/ncu", tool + 'touch "$out/ncu.csv"\nwhile [ "$1" != env ]; do shift; done\n"$@"\n')
        self.program("bundle/bin/kvlab", '#!/bin/bash\necho "kvlab with $LD_LIBRARY_PATH" >>"$CALLS"\ntouch "$scratch/ncu.json"\n')
        self.run_steps("export bundle kvlab out scratch\nstep torch 5 torch_attention\nstep dram 5 dram_bytes")
        self.assertEqual((self.folder / "calls").read_text().splitlines(),
                         ["python3 with /theirs", "kvlab with /ours", "ncu with /theirs", "kvlab with /ours"])

    def test_the_kernel_benchmarks_ask_for_what_the_targets_need(self):
        self.program("bundle/bin/kvlab-kernels", '#!/bin/bash\necho "$@" >>"$CALLS"\n')
        self.run_steps("step kernels 5 kernel_benchmarks")
        arguments = (self.folder / "calls").read_text()
        self.assertIn(f"--benchmark_out={self.out}/kernels.json --benchmark_out_format=json", arguments)
        self.assertIn("--benchmark_min_time=0.02 ", arguments)

    def test_kernel_times_need_our_module_and_cupti(self):
        ran = self.run_steps("step times 5 kernel_times")
        self.assertRegex(ran.stdout, r"times +not here .*no libkvlab_cupti.so in this bundle")
        (self.folder / "bundle/bin/libkvlab_cupti.so").touch()
        ran = self.run_steps("no_cupti='libcupti.so.13 is nowhere'\nstep times 5 kernel_times")
        self.assertRegex(ran.stdout, r"times +not here .*libcupti.so.13 is nowhere")

    def test_texts_are_shortened_in_the_middle(self):
        ran = self.run_steps("step chatter 10 bash -c 'echo first; yes line | head -c 20M; echo last'\n"
                             f"{{ echo begin; head -c 20M /dev/zero | tr '\\0' x; echo end; }} >$out/ncu.csv\nlimit_files\n"
                             "echo the table >>$log")
        self.assertEqual(ran.returncode, 0)
        for name, ends in (("log.txt", ("first\n", "last\nthe table\n")), ("ncu.csv", ("begin\n", "end\n"))):
            text = (self.out / name).read_text()
            self.assertLessEqual(len(text), 16 * MIB)
            self.assertRegex(text, r"\n\.\.\. \d+ bytes left out \.\.\.\n")
            self.assertIn(ends[0], text[:200])
            self.assertTrue(text.endswith(ends[1]), text[-100:])

    def test_json_is_compressed_and_left_out_where_that_is_not_enough(self):
        (self.out / "a.json").write_text("[" + "1," * (10 * MIB) + "1]")
        (self.out / "b.json").write_bytes(random.Random(1).randbytes(20 * MIB))
        (self.out / "c.json").write_text("[1]")
        ran = self.run_steps("limit_files")
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["a.json.gz", "c.json", "log.txt"])
        self.assertEqual(len(json.loads(gzip.open(self.out / "a.json.gz").read())), 10 * MIB + 1)
        self.assertRegex(ran.stdout, r"b\.json +left out .*larger than 16 MiB")


if __name__ == "__main__":
    unittest.main()
