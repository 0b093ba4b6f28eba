"""scripts/cuda_launched.py on made-up listings, and scripts/cuda_occupancy.py against CUDA's own calculator."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import cuda_launch_record  # noqa: E402
import cuda_launched  # noqa: E402
import cuda_occupancy  # noqa: E402

EMBED = "_ZN5kvlab4cuda12embed_kernelIfLi4EEEvv"
LISTING = f"""0000000000000090 b _ZGVZL{len("__device_stub_" + EMBED)}__device_stub_{EMBED}RPKfE5__tmp
0000000000000700 t _ZN5kvlab4cudaL12embed_kernelIfLi4EEEvv
                 U cudaLaunchKernelExC
"""

HEADER = Path("/usr/local/cuda/include/cuda_occupancy.h")
CALCULATOR = """
#include <cstdio>
#include "cuda_occupancy.h"
int main() {
  int major, registers, block_size, shared_bytes;
  while (std::scanf("%d %d %d %d", &major, &registers, &block_size, &shared_bytes) == 4) {
    cudaOccDeviceProp device;
    device.computeMajor = major;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = 2048;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 48 << 10;
    device.sharedMemPerMultiprocessor = (major == 8 ? 164 : 228) << 10;
    device.sharedMemPerBlockOptin = (major == 8 ? 163 : 227) << 10;
    device.reservedSharedMemPerBlock = 1024;
    device.numSms = 1;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024;
    kernel.numRegs = registers;
    kernel.sharedSizeBytes = 0;
    kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = shared_bytes;
    cudaOccDeviceState state;
    cudaOccResult result;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, block_size, shared_bytes) != 0) return 1;
    std::printf("%d\\n", result.activeBlocksPerMultiprocessor);
  }
}
"""


class Launched(unittest.TestCase):
    def test_stubs_name_their_kernels(self):
        self.assertEqual(cuda_launched.stubs(LISTING), {EMBED})
        self.assertEqual(cuda_launched.stubs("0 t _ZN5kvlab4cudaL12embed_kernelIfLi4EEEvv"), set())

    def test_a_record_is_kernels_with_shapes(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(cuda_launch_record.launches(Path(folder)), [])
            (Path(folder) / cuda_launch_record.RECORD).write_text(f"{EMBED} 128 0 3\n{EMBED} 128 96 4\n", encoding="utf-8")
            self.assertEqual(cuda_launch_record.launches(Path(folder)), [(EMBED, 128, 0, 3), (EMBED, 128, 96, 4)])

    def test_a_kernel_wants_eight_orders(self):
        orders = {"a": set(range(8)), "b": set(range(7)), "only in a test": {0}}
        wrong = cuda_launched.verdict({"a", "b", "c"}, orders)
        self.assertEqual([sentence.split(" orders")[0] for sentence in wrong],
                         ["b was launched in 7", "c was launched in 0"])

    def test_a_sanitized_build_is_compared_with_the_build_that_has_nvccs_objects(self):
        with tempfile.TemporaryDirectory() as folder:
            sanitized, release = Path(folder) / "asan", Path(folder) / "release"
            sanitized.mkdir()
            (release / "kernels").mkdir(parents=True)
            source = release / "stubs.cpp"  # an object such as nvcc leaves: a section of device code and a host stub
            stub = f"__device_stub_{EMBED}"
            source.write_text(f'extern "C" void stub() __asm__("_ZL{len(stub)}{stub}v");\nvoid stub() {{}}\n'
                              "char fatbin[1];\n", encoding="utf-8")
            subprocess.run(["g++", "-c", source, "-o", release / "kernels" / "embed.cu.o"], check=True)
            command = [ROOT / "scripts/cuda_launched.py", "--build", sanitized]
            self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 77)
            command += ["--nvcc-build", release]
            for n_orders, code in ((0, 1), (7, 1), (8, 0)):
                (sanitized / cuda_launch_record.RECORD).write_text(
                    "".join(f"{EMBED} 128 0 {seed}\n" for seed in range(n_orders)), encoding="utf-8")
                self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, code)


class Occupancy(unittest.TestCase):
    def test_known_values(self):
        self.assertEqual(cuda_occupancy.blocks_per_sm("sm_80", 32, 256, 0), 8)
        self.assertEqual(cuda_occupancy.blocks_per_sm("sm_80", 255, 256, 0), 1)
        self.assertEqual(cuda_occupancy.blocks_per_sm("sm_80", 32, 128, 163 << 10), 1)
        self.assertEqual(cuda_occupancy.blocks_per_sm("sm_90", 40, 128, 56 << 10), 4)
        self.assertEqual(cuda_occupancy.blocks_per_sm("sm_90", 255, 512, 0), 0)

    def test_agrees_with_the_toolkits_calculator(self):
        if not HEADER.is_file():
            self.skipTest(f"no {HEADER}")
        cases = [(architecture, registers, block_size, shared_bytes)
                 for architecture in ("sm_80", "sm_90") for registers in (16, 24, 33, 64, 65, 96, 128, 129, 168, 255)
                 for block_size in (32, 96, 128, 160, 256, 512, 1024)
                 for shared_bytes in (0, 1, 1000, 16 << 10, 40 << 10, 65536, 100_000, 163 << 10)]
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "calculator.cpp"
            source.write_text(CALCULATOR, encoding="utf-8")
            program = Path(folder) / "calculator"
            subprocess.run(["g++", f"-I{HEADER.parent}", str(source), "-o", str(program)], check=True)
            asked = "".join(f"{case[0][3]} {case[1]} {case[2]} {case[3]}\n" for case in cases)
            answers = subprocess.run([str(program)], input=asked, capture_output=True, text=True, check=True).stdout
        self.assertEqual([cuda_occupancy.blocks_per_sm(*case) for case in cases], [int(n) for n in answers.split()])


if __name__ == "__main__":
    unittest.main()
