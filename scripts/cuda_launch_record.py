"""What the emulated tests note of the kernels they launch (kernels/cuda_emulation/launched_kernels.h)."""

RECORD = "launched_kernels.txt"


def launches(build):
    """[(mangled kernel, block size, shared bytes, seed of the order of threads)] that emulation has run."""
    record = build / RECORD
    if not record.is_file():
        return []
    lines = (line.split() for line in record.read_text(encoding="utf-8").splitlines())
    return [(kernel, *map(int, numbers)) for kernel, *numbers in lines]
