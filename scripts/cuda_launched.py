#!/usr/bin/env python3
"""Whether every kernel that nvcc built has been run under emulation, and in enough orders of threads.

usage: scripts/cuda_launched.py [--build DIR] [--nvcc-build DIR]

Compares the kernels in the CUDA objects of --nvcc-build (nvcc's host stubs, read by nm) with launched_kernels.txt in
--build, to which the emulated tests add what they launch. A sanitized build has no CUDA objects: it names the build that
has; otherwise the two are one. Exits 1 when a kernel was launched in fewer than eight orders; 77 when there are no CUDA
objects.
"""

import argparse
import re
import sys
from pathlib import Path

import cuda_resources
from cuda_launch_record import launches

SKIPPED = 77
LEAST_ORDERS = 8


def stubs(listing):
    """Mangled kernels that nvcc's host stubs in a listing of nm stand for."""
    found = set()
    for match in re.finditer(r"(\d+)__device_stub_(?=_Z)", listing):
        begin = match.end(1)
        found.add(listing[begin:begin + int(match.group(1))].removeprefix("__device_stub_"))
    return found


def built_kernels(build):
    """Mangled kernels of what nvcc compiled below kernels/; the same files compiled as C++ hold no device code."""
    kernels = set()
    for path in sorted((build / "kernels").rglob("*.cu.o")):
        listing = cuda_resources.output_of("nm", path)
        if "fatbin" not in listing:
            continue
        found = stubs(listing)
        if not found:
            sys.exit(f"cuda_launched: {path} has no kernel whose stub is known; does this nvcc name stubs otherwise?")
        kernels |= found
    return kernels


def verdict(built, orders):
    """A sentence for each built kernel without enough orders; {kernel: seeds} by name."""
    counts = {name: len(orders.get(name, ())) for name in sorted(built)}
    return [f"{name} was launched in {count} orders of threads, {LEAST_ORDERS} are wanted "
            "(tests/kernels/cuda/thread_orders.h)" for name, count in counts.items() if count < LEAST_ORDERS]


def main():
    parser = argparse.ArgumentParser(usage="scripts/cuda_launched.py [--build DIR] [--nvcc-build DIR]",
                                     description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=cuda_resources.ROOT / "build" / "release")
    parser.add_argument("--nvcc-build", type=Path)
    options = parser.parse_args()
    nvcc_build = options.nvcc_build or options.build
    built = built_kernels(nvcc_build)
    if not built:
        print(f"cuda_launched: {nvcc_build} has no CUDA objects; build kvlab_cuda with nvcc", file=sys.stderr)
        return SKIPPED
    noted = launches(options.build)
    names = cuda_resources.demangled(sorted(built | {kernel for kernel, *_ in noted}))
    orders = {}
    for kernel, _, _, seed in noted:
        orders.setdefault(names[kernel], set()).add(seed)
    wrong = verdict({names[kernel] for kernel in built}, orders)
    for sentence in wrong:
        print(f"cuda_launched: {sentence}", file=sys.stderr)
    print(f"cuda_launched: {len(built)} kernel instances built, {len(built) - len(wrong)} launched in enough orders "
          f"by the tests of {options.build}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
