"""scripts/cuda_resources.py on listings of a stand-in cuobjdump: what it reads, and what its check refuses."""

import importlib.util
import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("cuda_resources", ROOT / "scripts" / "cuda_resources.py")
resources = importlib.util.module_from_spec(spec)
sys.modules["cuda_resources"] = resources
sys.path.insert(0, str(ROOT / "scripts"))
spec.loader.exec_module(resources)

FUNCTION = "_ZN5kvlab4cuda12embed_kernelIfLi4EEEvv"
STAND_IN = f"""#!/bin/sh
if [ "$1" = -res-usage ]; then cat <<'END'
Fatbin elf code:
================
arch = sm_80

Resource usage:
 Common:
  GLOBAL:0
 Function {FUNCTION}:
  REG:22 STACK:8 SHARED:0 LOCAL:0 CONSTANT[0]:392 TEXTURE:0 SURFACE:0 SAMPLER:0
END
else cat <<'END'
Fatbin elf code:
================
arch = sm_80
	code for sm_80
		Function : {FUNCTION}
	.headerflags	@"EF_CUDA_SM80"
        /*0040*/                   LDG.E.128.CONSTANT R4, [R2.64] ;   /* 0x0 */
        /*0050*/                   STL [R1], R4 ;   /* 0x0 */
        /*0060*/                   STG.E.128 [R2.64], R4 ;   /* 0x0 */
        /*0070*/                   HMMA.16816.F32.BF16 R4, R8, R2, R4 ;   /* 0x0 */
        /*0080*/              @!P0 BRA 0x60 ;   /* 0x0 */
        /*0090*/                   BRA 0x90;   /* 0x0 */
END
fi
"""


class Reading(unittest.TestCase):
    def test_listings_become_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = Path(folder) / "cuobjdump"
            tool.write_text(STAND_IN, encoding="utf-8")
            os.chmod(tool, 0o755)
            rows = resources.read_object(tool, "object.o")
        self.assertEqual(rows, {(FUNCTION, "sm_80"): {"registers": 22, "stack bytes": 8, "local bytes": 0,
                                                      "spill instructions": 1, "16-byte loads": 1,
                                                      "matrix products": 1, "16-byte loads in the loop": 0,
                                                      "matrix products in the loop": 1}})
        self.assertEqual(resources.demangled([FUNCTION]), {FUNCTION: "embed_kernel<float, 4>"})


class Checking(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        page, resources.PAGE = resources.PAGE, Path(folder.name) / "page.md"
        self.addCleanup(setattr, resources, "PAGE", page)
        self.rows = {("embed_kernel<float, 4>", "sm_80"): self.row(),
                     ("embed_kernel<float, 1>", "sm_80"): self.row(loads=0)}
        resources.PAGE.write_text(resources.page_of(self.rows, "13.0"), encoding="utf-8")

    @staticmethod
    def row(registers=22, local=0, loads=1, blocks=8):
        return dict(zip(resources.COLUMNS, [registers, 0, local, 0, loads, 0, 256, 0, blocks]))

    def test_the_page_holds_what_was_built(self):
        self.assertEqual(resources.read_page(), self.rows)
        self.assertEqual(resources.differences(self.rows), [])

    def test_registers_may_differ(self):
        self.rows["embed_kernel<float, 4>", "sm_80"] = self.row(registers=40, loads=2)
        self.assertEqual(resources.differences(self.rows), [])

    def test_fewer_blocks_than_planned_fail_and_more_do_not(self):
        self.rows["embed_kernel<float, 4>", "sm_80"] = self.row(registers=80, blocks=3)
        self.rows["embed_kernel<float, 1>", "sm_80"] = self.row(loads=0, blocks=9)
        self.assertEqual(resources.differences(self.rows), [
            "embed_kernel<float, 4> for sm_80: 3 blocks of 256 threads fit an SM with 80 registers, 8 are planned"])

    def test_occupancy_is_that_of_the_launch_with_the_fewest_blocks(self):
        rows = {("a", "sm_80"): {"registers": 32}, ("b", "sm_90"): {"registers": 32}}
        resources.add_occupancy(rows, {"a": {(256, 0), (256, 80 << 10)}})
        self.assertEqual(rows["a", "sm_80"], {"registers": 32, "block size": 256, "shared bytes": 80 << 10,
                                              "blocks per SM": 2})
        self.assertEqual(rows["b", "sm_90"]["blocks per SM"], 0)

    def loop(self, products, loads=8):
        return self.row() | {"matrix products": products, "matrix products in the loop": products,
                             "16-byte loads in the loop": loads}

    def test_a_tile_has_its_matrix_products_and_loads_in_its_loop(self):
        for name, products in (("attention_prefill_kernel<PrefillTile<64, 64, 2, 4> >", 2 * (2 * 16) * 64 * 64 // 2048),
                               ("attention_decode_matrix_kernel<128>", 2 * 16 * 16 * 128 // 2048)):
            sound = self.loop(products)
            self.assertEqual(resources.loop_differences(name, sound), [])
            for spoiled in ({"matrix products": 256}, {"matrix products in the loop": 7},
                            {"16-byte loads in the loop": 0}):
                self.assertEqual(len(resources.loop_differences(name, sound | spoiled)), 1, (name, spoiled))

    def test_a_kernel_that_streams_has_wide_loads_in_its_loop(self):
        for name in ("gemv_kernel<Bf16, 1, 8>", "gemv_kernel<float, 8, 4>", "attention_decode_kernel<float, 64, 2>"):
            self.assertEqual(resources.loop_differences(name, self.loop(0)), [])
            self.assertEqual(len(resources.loop_differences(name, self.loop(0, loads=7))), 1, name)
        self.assertEqual(resources.loop_differences("gemv_kernel<Bf16, 1, 1>", self.loop(0, loads=0)), [])

    def test_the_loop_is_the_innermost_that_multiplies_and_loads(self):
        def at(place, text):
            return f"        /*{place:04x}*/                   {text} ;"
        lines = [at(0x10, "LDG.E.128 R4"), at(0x20, "FFMA R0"), at(0x28, "@P0 BRA 0x20"),
                 at(0x30, "LDG.E.128 R4"), at(0x40, "FFMA R0"), at(0x60, "@P0 BRA 0x30"),
                 at(0x70, "LDG.E.128 R0"), at(0x80, "@P0 BRA 0x10")]
        self.assertEqual(resources.work_loop(lines), lines[3:6])
        self.assertEqual(resources.work_loop(lines[:2]), [])

    def test_local_memory_lost_loads_and_other_instances_fail(self):
        self.rows["embed_kernel<float, 4>", "sm_80"] = self.row(loads=0)
        self.rows["rows_kernel", "sm_90"] = self.row(local=16)
        self.rows["embed_kernel<Bf16, 1>", "sm_80"] = self.row()
        del self.rows["embed_kernel<float, 1>", "sm_80"]
        self.assertEqual(sorted(resources.differences(self.rows)), [
            "embed_kernel<Bf16, 1> for sm_80 is not in the page",
            "embed_kernel<float, 1> for sm_80 is in the page and was not built",
            "embed_kernel<float, 4> for sm_80: 0 16-byte loads, the page has 1",
            "rows_kernel for sm_90 is not in the page",
            "rows_kernel for sm_90: 16 local bytes",
        ])


if __name__ == "__main__":
    unittest.main()
