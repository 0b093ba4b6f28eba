"""How many blocks of a kernel fit one SM at a time: CUDA's occupancy rules for the architectures that we build for."""

WARP_SIZE = 32
REGISTERS = 65536  # of an SM, and of a block at most; four parts of it serve a quarter of the warps each
PARTS = 4
REGISTER_UNIT = 256  # a warp's registers are rounded up to it
SHARED_UNIT = 128
MOST_BLOCKS = 32
MOST_THREADS = 2048
RESERVED_SHARED_BYTES = 1024  # of each block, by the driver
SHARED_BYTES = {"sm_80": 164 << 10, "sm_90": 228 << 10}  # of an SM, at most


def rounded_up(n, unit):
    return -(-n // unit) * unit


def blocks_per_sm(architecture, registers, block_size, shared_bytes):
    """`registers` a thread, `shared_bytes` a block, static and dynamic. 0: a block does not fit."""
    warps = rounded_up(block_size, WARP_SIZE) // WARP_SIZE
    of_warp = rounded_up(registers * WARP_SIZE, REGISTER_UNIT)
    if block_size > 1024 or registers > 255 or of_warp * rounded_up(warps, PARTS) > REGISTERS:
        return 0
    by_registers = REGISTERS // PARTS // of_warp * PARTS // warps
    of_block = rounded_up(shared_bytes + RESERVED_SHARED_BYTES, SHARED_UNIT)
    return min(MOST_BLOCKS, MOST_THREADS // (warps * WARP_SIZE), by_registers, SHARED_BYTES[architecture] // of_block)
