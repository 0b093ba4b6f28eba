#!/usr/bin/env python3
"""scripts/gpu_check/torch_attention.py over a stand-in for PyTorch: its rows, its reasons, and what is left when it is ended."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu_check" / "torch_attention.py"
TORCH = '''
import os, time, types
__version__ = "9.9"
bfloat16 = "bfloat16"
class Tensor:
    def __init__(self, *shape): self.shape = shape
    def repeat_interleave(self, times, dim): return Tensor(*[n * (times if i == dim else 1) for i, n in enumerate(self.shape)])
def randn(*shape, device, dtype): return Tensor(*shape)
class Event:
    def __init__(self, enable_timing): pass
    def record(self): pass
    def synchronize(self): pass
    def elapsed_time(self, end): return 2.0
cuda = types.SimpleNamespace(is_available=lambda: "NO_GPU" not in os.environ, get_device_name=lambda: "a GPU", Event=Event)
def attention(q, k, v, is_causal):
    assert q.shape == k.shape == v.shape and q.shape[:2] == (1, 32) and is_causal
    if q.shape[2] == 2048: time.sleep(float(os.environ.get("SLOW", 0)))
from torch import nn
nn.functional = types.SimpleNamespace(scaled_dot_product_attention=attention)
'''
ATTENTION = '''
import contextlib, enum
class SDPBackend(enum.Enum):
    FLASH_ATTENTION = 1
    CUDNN_ATTENTION = 2
@contextlib.contextmanager
def sdpa_kernel(backend):
    if backend is SDPBackend.CUDNN_ATTENTION: raise RuntimeError("No available kernel.\\nmore words")
    yield
'''


class TorchAttention(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "torch/nn").mkdir(parents=True)
        (self.folder / "torch/__init__.py").write_text(TORCH)
        (self.folder / "torch/nn/__init__.py").touch()
        (self.folder / "torch/nn/attention.py").write_text(ATTENTION)
        self.json = self.folder / "out.json"

    def start(self, **environment):
        return subprocess.Popen([sys.executable, "-B", SCRIPT, "--json", self.json], stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "PYTHONPATH": str(self.folder), **environment})

    def test_times_become_flops_and_a_refusal_its_first_line(self):
        running = self.start()
        said, _ = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 0)
        rows = json.loads(self.json.read_text())["rows"]
        self.assertEqual([(row["length"], row["backend"]) for row in rows],
                         [(n, name + "_ATTENTION") for n in (8192, 2048, 16384) for name in ("FLASH", "CUDNN")])
        self.assertEqual(rows[0]["seconds"], 0.002)
        self.assertEqual(rows[0]["flops_per_s"], 4 * 32 * 128 * (8192 * 8193 // 2) / 0.002)
        self.assertEqual(rows[1]["reason"], "No available kernel.")
        self.assertIn("CUDNN_ATTENTION 16384: No available kernel.", said)

    def test_ended_early_it_leaves_the_rows_so_far(self):
        running = self.start(SLOW="60")
        for _ in range(2):
            running.stdout.readline()
        running.terminate()
        running.communicate(timeout=60)
        rows = json.loads(self.json.read_text())["rows"]
        self.assertEqual([row["length"] for row in rows], [8192, 8192])

    def test_without_a_gpu_it_says_so(self):
        running = self.start(NO_GPU="1")
        said, _ = running.communicate(timeout=60)
        self.assertEqual((running.returncode, said), (77, "PyTorch sees no GPU\n"))
        self.assertFalse(self.json.exists())


if __name__ == "__main__":
    unittest.main()
