#!/usr/bin/env python3
"""scripts/gpu_check.sh --run, in a made-up bundle whose programs are stand-ins: the list, what is left out, tables,
refusals. Single steps: gpu_check_steps_test.py."""

import os
import re
import shutil
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
STAND_IN = """#!/bin/bash
# notes how it was called; a sweep leaves a report
echo "$(basename "$0") $*" >>"$CALLS"
case "$*" in
  *"--model toy"*) [ -z "$NO_GPU" ] || { echo "kvlab: --device cuda: no NVIDIA driver" >&2; exit 2; } ;;
  sweep*)
    while [ $# -gt 0 ]; do [ "$1" = --out ] && out=$2; shift; done
    mkdir -p "$out"; echo '{"schema": "kvlab.report/1"}' >"$out/report.json" ;;
  *"--profile"*"--json"*|*"--json"*"--profile"*) echo "kvlab: a profiled run makes no report" >&2; exit 2 ;;
  *"--benchmark_out="*) 
    for word; do case $word in --benchmark_out=*) echo '{"benchmarks": []}' >"${word#*=}" ;; esac; done ;;
  *"--json"*)
    while [ $# -gt 0 ]; do [ "$1" = --json ] && out=$2; shift; done
    echo '{"results": [{"metrics": {"decode": {"bytes_per_step": 16000}}}]}' >"$out" ;;
esac
echo "done with $1"
"""

NCU = """#!/bin/bash
# writes two kernels' counters where --log-file says and runs the program
while [ $# -gt 0 ]; do
  case "$1" in --log-file) log=$2; shift 2 ;; --metrics) shift 2 ;; --clock-control | --target-processes | --profile-from-start | --print-units) shift 2 ;;
    --csv) shift ;; *) break ;; esac
done
printf '%s\\n' '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"' \\
  '"0","gemv","dram__bytes_read.sum","byte","10,000"' '"0","gemv","dram__bytes_write.sum","byte","500"' \\
  '"1","attention","dram__bytes_read.sum","byte","6,000"' '"1","attention","gpu__time_duration.sum","ns","77"' >"$log"
"$@"
"""


class Bundle:
    """An unpacked bundle below a folder of its own."""

    def __init__(self, folder):
        self.root = Path(folder) / "kvlab-gpu-check"
        (self.root / "bin").mkdir(parents=True)
        (self.root / "lib").mkdir()
        shutil.copytree(SOURCE / "scripts/gpu_check", self.root / "gpu_check")
        shutil.copy(SOURCE / "scripts/gpu_check.sh", self.root)
        shutil.copytree(SOURCE / "configs", self.root / "configs")
        (self.root / "VERSION").write_text("git 0123\n")
        (self.root / "cuda_libraries.txt").write_text("libcublasLt.so.99\n")
        self.cuda = Path(folder) / "cuda"
        self.cuda.mkdir()
        (self.cuda / "libcublasLt.so.99").touch()
        self.calls = Path(folder) / "calls"
        self.out = Path(folder) / "out"
        for name in ("kvlab", "kvlab-kernels", "kernels_backend_test", "kernels_cuda_device_conformance_test"):
            self.program(name, STAND_IN)

    def program(self, name, text):
        path = self.root / "bin" / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(self, *arguments, **environment):
        environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(self.cuda), "CALLS": str(self.calls)} | environment
        return subprocess.run([self.root / "gpu_check.sh", "--run", "--out", self.out, *arguments], env=environment,
                              capture_output=True, text=True, timeout=120, check=False)

    def called(self):
        return [line.split()[:2] for line in self.calls.read_text().splitlines()]


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bundle = Bundle(folder.name)

    def row(self, result, name):
        rows = [line for line in result.stdout.splitlines() if line.startswith(name + " ")]
        self.assertEqual(len(rows), 1, result.stdout)
        return rows[0]

    def test_goes_down_the_list_in_order_of_value(self):
        result = self.bundle.run("--minutes", "20")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        steps = [line.split()[0] for line in result.stdout.splitlines() if " s of about " in line]
        self.assertEqual(steps, ["primitives", "kernels", "ceilings", "kernel-benchmarks", "decode-fused", "kernel-times",
                                 "torch-attention", "prefill-fused", "decode-eager", "decode-naive", "prefill-naive",
                                 "dram-bytes"])
        for name in ("kernel-times", "dram-bytes"):
            self.assertIn("not here", self.row(result, name))
        self.assertEqual([name for name, _ in self.bundle.called()][2:5],
                         ["kernels_cuda_device_conformance_test", "kernels_backend_test", "kvlab"])
        files = sorted(path.name for path in self.bundle.out.iterdir())
        self.assertEqual(files, ["ceilings.json", "gpu-decode.json", "gpu-prefill.json", "kernels.json", "log.txt"])

    def test_all_that_can_be_there_are_eight_files(self):
        self.bundle.program("ncu", NCU)
        self.bundle.program("libkvlab_cupti.so", "")
        (self.bundle.root / "gpu_check/torch_attention.py").write_text("import sys\nopen(sys.argv[2], 'w').close()\n")
        self.bundle.run("--minutes", "20", PATH=f"{self.bundle.root / 'bin'}:{os.environ['PATH']}")
        files = {path.name for path in self.bundle.out.iterdir()}
        self.assertEqual(files, {"log.txt", "ceilings.json", "kernels.json", "gpu-decode.json", "kernel_times.json",
                                 "torch_attention.json", "gpu-prefill.json", "ncu.csv"})

    def test_the_targets_come_last_in_the_output_and_in_the_log(self):
        result = self.bundle.run("--minutes", "20")
        last = result.stdout.splitlines()[-9:]
        self.assertRegex(last[0], "^target +measured +ceiling +ratio +wanted$")
        self.assertRegex(last[-1], "^gaps of a replayed step +not measured +<= 0.05 +kernel-times not here: no libkvlab_cupti")
        self.assertEqual((self.bundle.out / "log.txt").read_text().splitlines()[-9:], last)

    def test_every_part_of_a_sweep_is_of_its_own_cells(self):
        self.bundle.run("--minutes", "20")
        parts = [line for line in self.bundle.calls.read_text().splitlines() if line.startswith("kvlab sweep")]
        filters = [re.findall("--filter=(\\S+)", line) for line in parts]
        self.assertEqual(filters, [["attention=fused", "execution=graph"], ["attention=fused"],
                                   ["attention=fused", "execution=eager"], ["attention=naive"], ["attention=naive"]])

    def test_dram_bytes_stand_beside_the_modelled_ones(self):
        self.bundle.program("ncu", NCU)
        result = self.bundle.run("--minutes", "20", PATH=f"{self.bundle.root / 'bin'}:{os.environ['PATH']}")
        self.assertIn("16500 bytes of DRAM traffic, 16000 modelled", self.row(result, "dram-bytes"))
        self.assertIn("ok", self.row(result, "dram-bytes"))
        self.assertTrue((self.bundle.out / "ncu.csv").exists())

    def test_leaves_out_what_does_not_fit_and_says_so(self):
        result = self.bundle.run("--minutes", "1")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("ok", self.row(result, "primitives"))
        self.assertIn("left out", self.row(result, "decode-fused"))
        self.assertRegex(self.row(result, "decode-fused"), r"of about +75 s  only \d+ s were left")

    def test_a_failing_step_fails_the_run_and_the_others_go_on(self):
        self.bundle.program("kernels_backend_test", "#!/bin/bash\necho '3 FAILED TESTS'\nexit 1\n")
        result = self.bundle.run("--minutes", "20")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("failed 1", self.row(result, "kernels"))
        self.assertIn("3 FAILED TESTS", self.row(result, "kernels"))
        self.assertIn("ok", self.row(result, "prefill-naive"))

    def test_refuses_with_the_reason_and_writes_nothing(self):
        for arguments, environment, reason in (
                (["--minutes", "0"], {}, "--minutes 0"),
                ([], {"NO_GPU": "1"}, "no NVIDIA driver"),
                ([], {"LD_LIBRARY_PATH": "/nowhere"}, "libcublasLt.so.99 is in none of"),
                (["--fast"], {}, "unknown argument '--fast'")):
            result = self.bundle.run(*arguments, **environment)
            self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
            self.assertIn(reason, result.stderr)
            self.assertFalse(self.bundle.out.exists())

    def test_a_folder_with_something_in_it_stays_as_it_is(self):
        self.bundle.out.mkdir()
        (self.bundle.out / "mine").touch()
        result = self.bundle.run()
        self.assertEqual(result.returncode, 2)
        self.assertEqual([path.name for path in self.bundle.out.iterdir()], ["mine"])


if __name__ == "__main__":
    unittest.main()
