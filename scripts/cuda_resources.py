#!/usr/bin/env python3
"""What nvcc made of every kernel: registers, stack, local memory, 16-byte loads and matrix products, from the objects.

usage: scripts/cuda_resources.py [--build DIR] [--check]

Writes docs/kernels/cuda_resources.md. With --check it writes nothing and exits 1 when a kernel spills or uses local
memory, or when the page has other kernel instances than were built, or one has gained or lost its 16-byte loads or
matrix products, or fewer blocks fit an SM than the page plans, or when a kernel that is a tile has other matrix
products than the tile's, or one that streams too few 16-byte loads in the loop that does its work. Registers are a
record, of the nvcc that the page names. Block sizes and shared memory are those of the emulated launches
(DIR/launched_kernels.txt, which ctest writes).
Exit 77: no cuobjdump, no CUDA objects, or no launches; cuobjdump and nvdisasm come with the full toolkit, or from
scripts/requirements.txt.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cuda_occupancy
from cuda_launch_record import RECORD, launches

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "kernels" / "cuda_resources.md"
SKIPPED = 77
TOOLS = ["cuobjdump", "nvdisasm"]  # the second does the disassembling for the first
COLUMNS = ["registers", "stack bytes", "local bytes", "spill instructions", "16-byte loads", "matrix products",
           "block size", "shared bytes", "blocks per SM"]
SPILLS = ["stack bytes", "local bytes", "spill instructions"]
SHAPE = ["16-byte loads", "matrix products"]  # what the source decides; the exact number of loads is the compiler's

# What an instruction counts as. LDL and STL move spilled registers or local arrays.
INSTRUCTIONS = {
    "spill instructions": re.compile(r"\b(?:LDL|STL)\b"),
    "16-byte loads": re.compile(r"\b(?:LDG|LDGSTS)\.[\w.]*128"),
    "matrix products": re.compile(r"\bHMMA\b"),
}

IN_LOOP = ["16-byte loads", "matrix products"]  # counted a second time in the loop that does the work
MULTIPLY_ADD = re.compile(r"\bFFMA\b")

# Kernels whose name says how many matrix products a step of their loop has: m16n8k16 is 16 * 8 * 16 multiply-adds.
PREFILL_TILE = re.compile(r"attention_prefill_kernel<PrefillTile<(\d+), (\d+), (\d+), \d+> ?>")
DECODE_TILE = re.compile(r"attention_decode_matrix_kernel<(\d+)>")
DECODE_KEYS = {32: 32, 64: 32, 96: 16, 128: 16, 256: 16}  # of a warp in a step, by head_dim (decode_kernel.h)
# Kernels that stream K and V, or weights (4 rows in 2 stages): how many 16-byte loads their loop has at least.
STREAM_LOADS = 8
STREAM = re.compile(r"attention_decode(?:_matrix)?_kernel<|gemv_kernel<(?:float, \d, 4|Bf16, \d, 8)>")


def find_cuobjdump():
    """The first of: next to nvcc, on PATH, in the Python environment of the scripts; nvdisasm must be beside it."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    candidates = [Path(nvcc).with_name("cuobjdump"), Path(shutil.which("cuobjdump") or "/nonexistent")]
    candidates += sorted((ROOT / ".venv").glob("lib/python3*/site-packages/nvidia/cu*/bin/cuobjdump"))
    complete = (path for path in candidates if all(os.access(path.with_name(tool), os.X_OK) for tool in TOOLS))
    return next(complete, None)


def output_of(*command):
    path = f"{Path(command[0]).parent}:{os.environ['PATH']}"  # where cuobjdump looks for nvdisasm
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                         env={**os.environ, "PATH": path})
    if ran.returncode != 0:
        sys.exit(f"cuda_resources: {' '.join(map(str, command))} failed: {ran.stderr.strip()}")
    return ran.stdout


def nvcc_version(build):
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    nvcc = re.search(r"^CMAKE_CUDA_COMPILER:\w+=(.+)$", cache, re.MULTILINE)
    version = re.search(r"release ([\d.]+)", output_of(nvcc.group(1), "--version")) if nvcc else None
    return version.group(1) if version else "unknown"


def demangled(names):
    """{mangled: kernel and template arguments, without namespaces and parameters}"""
    plain = output_of("c++filt", *names).splitlines()
    short = (re.sub(r"\bkvlab::(?:cuda::)?", "", name).removeprefix("void ") for name in plain)
    return dict(zip(names, (name[: name.rfind("(", 0, argument_list(name))] for name in short)))


def argument_list(name):
    """Just past the parenthesis that opens the parameters: template arguments such as (int)4 have their own."""
    depth = 0
    for i, letter in enumerate(name):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0:
            return i + 1
    return len(name)


def by_function(text):
    """[(architecture, mangled function, its lines)] of cuobjdump's listing."""
    architecture, function, sections = "", None, []
    for line in text.splitlines():
        if found := re.match(r"\s*arch = (sm_\w+)", line):
            architecture = found.group(1)
        elif found := re.match(r"\s*Function\s*:?\s*(\w+):?\s*$", line):
            function = (architecture, found.group(1), [])
            sections.append(function)
        elif function:
            function[2].append(line)
    return sections


def loops_of(lines):
    """Every loop, as a branch backwards makes it: {(first address, last): its lines}."""
    placed = [(int(found.group(1), 16), line) for line in lines
              if (found := re.match(r"\s*/\*([0-9a-f]{4,})\*/", line))]
    jumps = [(int(found.group(1), 16), at) for at, line in placed
             if (found := re.search(r"\bBRA\b.* 0x([0-9a-f]+) ;", line))]
    return {(first, last): [line for at, line in placed if first <= at <= last]
            for first, last in jumps if first < last}  # a branch to itself pads the end of a kernel


def work_loop(lines):
    """Among the innermost loops that multiply, the one with the most 16-byte loads."""
    products = INSTRUCTIONS["matrix products"]
    work = products if any(map(products.search, lines)) else MULTIPLY_ADD
    working = {bounds: body for bounds, body in loops_of(lines).items() if any(map(work.search, body))}

    def is_innermost(bounds):
        return not any(other != bounds and bounds[0] <= other[0] and other[1] <= bounds[1] for other in working)

    return max((body for bounds, body in working.items() if is_innermost(bounds)),
               key=lambda body: sum(map(bool, map(INSTRUCTIONS["16-byte loads"].search, body))), default=[])


def read_object(cuobjdump, path):
    """{(mangled function, architecture): {column: number}}"""
    rows = {}
    for architecture, function, lines in by_function(output_of(cuobjdump, "-res-usage", path)):
        usage = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", "\n".join(lines)))
        rows[function, architecture] = {"registers": int(usage["REG"]), "stack bytes": int(usage["STACK"]),
                                        "local bytes": int(usage["LOCAL"])}
    for architecture, function, lines in by_function(output_of(cuobjdump, "-sass", path)):
        for column, pattern in INSTRUCTIONS.items():
            rows[function, architecture][column] = sum(1 for line in lines if pattern.search(line))
        repeated = work_loop(lines)
        for column in IN_LOOP:
            found = sum(1 for line in repeated if INSTRUCTIONS[column].search(line))
            rows[function, architecture][column + " in the loop"] = found
    return rows


def read_build(cuobjdump, build):
    """{(kernel instance, architecture): {column: number}}"""
    rows = {}
    for path in sorted((build / "kernels" / "cuda" / "CMakeFiles" / "kvlab_cuda.dir").glob("*.cu.o")):
        rows.update(read_object(cuobjdump, path))
    names = demangled(sorted({function for function, _ in rows})) if rows else {}
    return {(names[function], architecture): row for (function, architecture), row in rows.items()}


def add_occupancy(rows, shapes):
    """Adds the launch that leaves the fewest blocks on an SM; {kernel: {(block size, shared bytes)}}."""
    for (kernel, architecture), row in rows.items():
        fits = [(cuda_occupancy.blocks_per_sm(architecture, row["registers"], *shape), *shape)
                for shape in shapes.get(kernel, ())]
        row["blocks per SM"], row["block size"], row["shared bytes"] = min(fits, default=(0, 0, 0))


def launch_shapes(build):
    """{kernel: {(block size, shared bytes)}} of the emulated launches."""
    noted = launches(build)
    names = demangled(sorted({kernel for kernel, *_ in noted})) if noted else {}
    shapes = {}
    for kernel, block_size, shared_bytes, _ in noted:
        shapes.setdefault(names[kernel], set()).add((block_size, shared_bytes))
    return shapes


def page_of(rows, version):
    lines = [
        "# What nvcc makes of the kernels", "",
        "Made by `scripts/cuda_resources.py` from the built objects; CI checks it where nvcc and cuobjdump are. No kernel",
        "may spill or use local memory. Whether an instance has 16-byte loads (`LDG.128`, `LDGSTS.128`) and matrix",
        "products (`HMMA`) must be as here; registers belong to the nvcc named. Counts are instructions in the code.",
        "`attention_prefill_kernel` and `attention_decode_matrix_kernel` must have the products of their tile, all in",
        "the loop; they, `attention_decode_kernel` and wide instances of `gemv_kernel` must have 16-byte loads there.",
        "An instance `<..., 1>` is the path of addresses or widths that do not allow wide accesses. Blocks per SM follow",
        "from registers, block size and shared memory by CUDA's occupancy rules, for the launch among those of the tests",
        "that leaves the fewest; they are the plan, which a build may exceed.", "",
        f"nvcc {version}", "",
        "| kernel | architecture | " + " | ".join(COLUMNS) + " |",
        "| --- | --- |" + " ---: |" * len(COLUMNS),
    ]
    for (kernel, architecture), row in sorted(rows.items()):
        lines.append(f"| `{kernel}` | {architecture} | " + " | ".join(str(row[column]) for column in COLUMNS) + " |")
    return "\n".join(lines) + "\n"


def read_page():
    """The rows of the page, as read_build gives them."""
    text = PAGE.read_text(encoding="utf-8")
    rows = {}
    for kernel, architecture, numbers in re.findall(r"^\| `(.+)` \| (sm_\w+) \| (.+) \|$", text, re.MULTILINE):
        rows[kernel, architecture] = dict(zip(COLUMNS, map(int, numbers.split(" | "))))
    return rows


def tile_products(name):
    """Matrix products in a step of a kernel that is a tile; None for other kernels."""
    if tile := PREFILL_TILE.match(name):
        dim, keys, row_blocks = map(int, tile.groups())
        return 2 * row_blocks * 16 * keys * dim // (16 * 8 * 16)  # scores, and weights times V
    if tile := DECODE_TILE.match(name):
        dim = int(tile.group(1))
        return 2 * 16 * DECODE_KEYS[dim] * dim // (16 * 8 * 16)
    return None


def loop_differences(name, row):
    """What is wrong with the loop of a kernel that streams or is a tile."""
    wrong = []
    expected = tile_products(name)
    if expected is not None and {row["matrix products"], row["matrix products in the loop"]} != {expected}:
        wrong.append(f"{name}: {row['matrix products']} matrix products, {row['matrix products in the loop']} of them "
                     f"in its loop; its tile has {expected}")
    least = STREAM_LOADS if STREAM.match(name) else 1 if PREFILL_TILE.match(name) else 0
    if least > 0 and row["16-byte loads in the loop"] < least:
        wrong.append(f"{name}: {row['16-byte loads in the loop']} 16-byte loads in its loop; it needs {least} or more")
    return wrong


def differences(rows):
    """What is wrong with the built kernels, as sentences."""
    page = read_page()
    wrong = []
    for instance, row in sorted(rows.items()):
        name = " for ".join(instance)
        wrong += [f"{name}: {row[column]} {column}" for column in SPILLS if row[column] != 0]
        wrong += loop_differences(name, row)
        if instance not in page:
            wrong.append(f"{name} is not in the page")
            continue
        recorded = page[instance]
        wrong += [f"{name}: {row[column]} {column}, the page has {recorded[column]}" for column in SHAPE
                  if (row[column] == 0) != (recorded[column] == 0)]
        planned = recorded.get("blocks per SM", 0)
        if row["blocks per SM"] < planned:
            wrong.append(f"{name}: {row['blocks per SM']} blocks of {row['block size']} threads fit an SM with "
                         f"{row['registers']} registers, {planned} are planned")
    absent = sorted(set(page) - set(rows))
    return wrong + [f"{' for '.join(instance)} is in the page and was not built" for instance in absent]


def check(rows):
    wrong = differences(rows)
    for sentence in wrong:
        print(f"cuda_resources: {sentence}", file=sys.stderr)
    if wrong:
        print("cuda_resources: if that is meant, run scripts/cuda_resources.py and commit the page", file=sys.stderr)
        return 1
    print(f"cuda_resources: {len(rows)} kernel instances: no spills, no local memory, as the page says")
    return 0


def main():
    parser = argparse.ArgumentParser(usage="scripts/cuda_resources.py [--build DIR] [--check]", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    cuobjdump = find_cuobjdump()
    if cuobjdump is None:
        print("cuda_resources: no cuobjdump and nvdisasm next to nvcc, on PATH or in .venv, which scripts/setup.sh makes",
              file=sys.stderr)
        return SKIPPED
    rows = read_build(cuobjdump, arguments.build)
    if not rows:
        print(f"cuda_resources: {arguments.build} has no CUDA objects; build kvlab_cuda with nvcc", file=sys.stderr)
        return SKIPPED
    shapes = launch_shapes(arguments.build)
    if not shapes:
        print(f"cuda_resources: {arguments.build} has no {RECORD} yet; run ctest -R kernels/cuda there",
              file=sys.stderr)
        return SKIPPED
    add_occupancy(rows, shapes)
    if arguments.check:
        return check(rows)
    version = nvcc_version(arguments.build)
    PAGE.write_text(page_of(rows, version), encoding="utf-8")
    print(f"cuda_resources: wrote {PAGE.relative_to(ROOT)}: {len(rows)} kernel instances, nvcc {version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
