#!/usr/bin/env python3
"""scripts/gpu_check.sh --prepare: what it packs of a build that is none."""

import os
import shutil
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
CMAKE = """#!/bin/bash
# builds nothing: every program is a copy of one that is there, and the module of CUPTI is the one that the test linked
case "$1" in
  --build)
    shift 3
    for target in "$@"; do
      case "$target" in
        kvlab_cuda_module) cp /bin/true build/gpu-check/libkvlab_cuda.so ;;
        kvlab_emulated_primitives) cp /bin/true build/gpu-check/libkvlab_emulated_primitives.so ;;
        kvlab_cupti) cp "$CUPTI_MODULE" build/gpu-check/libkvlab_cupti.so ;;
        -j) break ;;
        *) cp /bin/true "build/gpu-check/$target" ;;
      esac
    done ;;
  *) mkdir -p build/gpu-check ;;
esac
"""


@unittest.skipUnless(shutil.which("c++") and shutil.which("readelf"), "no compiler or binutils")
class Prepare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "source"
        (self.root / "scripts").mkdir(parents=True)
        (self.root / "CMakeLists.txt").touch()
        shutil.copytree(SOURCE / "scripts/gpu_check", self.root / "scripts/gpu_check")
        shutil.copy(SOURCE / "scripts/gpu_check.sh", self.root / "scripts")
        shutil.copytree(SOURCE / "configs", self.root / "configs")
        self.tools = Path(folder.name) / "tools"
        self.tools.mkdir()
        for name, text in (("cmake", CMAKE), ("nvcc", "#!/bin/sh\necho release 99\n")):
            (self.tools / name).write_text(text)
            (self.tools / name).chmod(0o755)

    def library(self, name, *linked):
        """A shared object of that name; `linked` are libraries that it needs."""
        path = self.tools / name
        subprocess.run(["c++", "-shared", "-x", "c++", "/dev/null", "-x", "none", "-Wl,--no-as-needed", *linked,
                        f"-Wl,-soname,{name}", "-o", path], check=True)
        return path

    def test_packs_what_run_needs_and_leaves_cudas_libraries_out(self):
        module = self.library("libkvlab_cupti.so", self.library("libcupti.so.99"), self.library("libours.so.1"))
        packed = subprocess.run([self.root / "scripts/gpu_check.sh", "--prepare", "--out", "bundle.tar.gz"], text=True,
                                env={"PATH": f"{self.tools}:{os.environ['PATH']}", "CUPTI_MODULE": str(module),
                                     "LD_LIBRARY_PATH": str(self.tools)}, capture_output=True, check=False)
        self.assertEqual(packed.returncode, 0, packed.stdout + packed.stderr)
        with tarfile.open(self.root / "bundle.tar.gz") as bundle:
            names = {name.removeprefix("kvlab-gpu-check/") for name in bundle.getnames()}
            to_find = bundle.extractfile("kvlab-gpu-check/cuda_libraries.txt").read().decode()
        self.assertLessEqual({"bin/kvlab", "bin/kvlab-kernels", "bin/libkvlab_cuda.so", "bin/libkvlab_cupti.so",
                              "bin/kernels_backend_test", "bin/kernels_cuda_device_conformance_test", "lib/libours.so.1",
                              "gpu_check.sh", "gpu_check/run.sh", "configs/sweeps/gpu-decode.json"}, names)
        self.assertEqual(to_find, "libcupti.so.99\n", "CUDA's own, for --run to look for")
        self.assertFalse([name for name in names if "libcupti.so" in name])


if __name__ == "__main__":
    unittest.main()
