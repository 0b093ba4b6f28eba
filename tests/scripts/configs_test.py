"""The committed sweeps and datasheets: every sweep passes --dry-run, every datasheet has the same keys.

Needs KVLAB_BINARY (the built program); sweeps of a model file that was not fetched are skipped.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("KVLAB_BINARY", "")
SWEEPS = sorted((ROOT / "configs" / "sweeps").glob("*.json"))
PRESETS = {"quickstart", "chat", "long-context", "cache", "paging", "heads", "attention", "batch", "depth", "prune",
           "logits", "execution"}


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


class Sweeps(unittest.TestCase):
    def test_all_presets_are_there_under_their_own_name(self):
        self.assertLessEqual(PRESETS, {path.stem for path in SWEEPS})
        for path in SWEEPS:
            self.assertEqual(read(path)["name"], path.stem)

    def test_every_sweep_can_be_planned(self):
        folder = tempfile.TemporaryDirectory()  # with ceilings, so that none is measured for each plan
        self.addCleanup(folder.cleanup)
        ceilings = {"read_bytes_per_s": 1e10, "copy_bytes_per_s": 1e10, "gemm_flops_per_s": {"f32": 1e11, "bf16": 1e11}}
        Path(folder.name, "ceilings.json").write_text(json.dumps(ceilings), encoding="utf-8")
        for path in SWEEPS:
            with self.subTest(path.stem):
                absent = [model for model in read(path)["models"] if "/" in model and not (ROOT / model).exists()]
                if absent:
                    self.skipTest(f"{absent[0]} is not there; scripts/fetch_model.py smollm2 fetches it")
                ran = subprocess.run([BINARY, "sweep", path, "--dry-run", "--out", folder.name], capture_output=True,
                                     text=True, timeout=60, check=False)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertRegex(ran.stdout, r"\n[1-9]\d* cases: ")
                self.assertIn("10.0 GB/s", ran.stdout)

    def test_chat_and_long_context_are_those_of_the_specification(self):
        chat, long = (read(ROOT / "configs" / "sweeps" / f"{name}.json")["axes"] for name in ("chat", "long-context"))
        self.assertEqual((chat["prompt_tokens"], chat["gen_tokens"]), ([100], [500]))  # SPEC S14
        self.assertEqual(long["prompt_tokens"], {"from": 512, "to": 32768, "times": 2})

    def test_every_preset_is_explained(self):
        text = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
        for path in SWEEPS:
            self.assertIn(f"| `{path.stem}` |", text)


class Hardware(unittest.TestCase):
    def test_all_datasheets_have_the_same_keys_and_a_source(self):
        sheets = {path.stem: read(path) for path in sorted((ROOT / "configs" / "hardware").glob("*.json"))}
        self.assertLessEqual({"a100-80gb", "h100-sxm", "h200", "b200", "mi300x", "rtx-4090"}, set(sheets))
        for name, sheet in sheets.items():
            keys = [key for key in sheet if key != "link_bytes_per_s"]  # some have no link between devices
            self.assertEqual(keys, ["name", "device_names", "source", "memory_bytes", "memory_bytes_per_s",
                                    "flops_per_s"], name)
            self.assertEqual(list(sheet["flops_per_s"]), ["f32", "bf16"], name)
            self.assertRegex(sheet["source"], r"\(20\d\d\)", name)


if __name__ == "__main__":
    if not os.access(BINARY, os.X_OK):
        print("skipped: KVLAB_BINARY does not name the built program")
        sys.exit(77)
    unittest.main()
