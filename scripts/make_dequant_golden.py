#!/usr/bin/env python3
"""Writes tests/golden/dequant: what the Python package `gguf` makes of quantised values.

blocks.json: random blocks of every element type and their f32 values, both as hexadecimal little-endian bytes.
FILE.json, for each real model under models/: one checksum for each tensor (see `checksum`).

Needs numpy and gguf (pip install gguf); the tests need neither.
"""

import argparse
import json
import pathlib

import gguf
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
REAL_MODELS = ["SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"]
# Byte offsets of the f16 scales in a block.
SCALES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
# Zeros, subnormals, the ends of the range.
SPECIAL_HALVES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF]
WHOLE_TENSOR = 1 << 23  # larger ones are sampled at both ends
SAMPLE_ROWS = 1024


def random_blocks(name, rng):
    """Bytes of every pattern: all quants, all packed scales, f16 scales of ordinary and of extreme size."""
    block_elements, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    if name == "F32":
        special = np.array([0.0, -0.0, 1e-45, -3.4028235e38, np.inf, -np.inf], np.float32)
        return np.concatenate([special, rng.standard_normal(58).astype(np.float32)]).view(np.uint8)
    if name == "F16":
        special = np.array(SPECIAL_HALVES + [0x7C00, 0xFC00], np.uint16)
        return np.concatenate([special, rng.standard_normal(119).astype(np.float16).view(np.uint16)]).view(np.uint8)
    if name == "BF16":
        return (rng.integers(0, 0x7F80, 128, dtype=np.uint16) | (rng.integers(0, 2, 128, dtype=np.uint16) << 15)).view(np.uint8)
    n_blocks = len(SPECIAL_HALVES) + (9 if block_elements == 32 else 1)
    blocks = rng.integers(0, 256, (n_blocks, block_bytes), dtype=np.uint8)
    for at in SCALES[name]:
        halves = (rng.standard_normal(n_blocks) * 0.01).astype(np.float16)
        halves.view(np.uint16)[: len(SPECIAL_HALVES)] = rng.permutation(SPECIAL_HALVES)
        blocks[:, at : at + 2] = halves.view(np.uint8).reshape(n_blocks, 2)
    return blocks.ravel()


def dequantise(blocks, name):
    return gguf.dequantize(blocks, gguf.GGMLQuantizationType[name]).astype(np.float32).ravel()


def checksum(values):
    """The sum over i of (2 i + 1) times the bits of value i, modulo 2^64: values, order and signs of zero all count."""
    bits = values.view(np.uint32).astype(np.uint64)
    weights = 2 * np.arange(bits.size, dtype=np.uint64) + np.uint64(1)
    return f"{int((bits * weights).sum(dtype=np.uint64)):016x}"


def tensor_entries(tensor):
    """A tensor whole, or its first and last rows."""
    name = tensor.tensor_type.name
    columns = int(tensor.shape[0])
    n_elements = int(tensor.n_elements)
    rows = tensor.data.reshape(n_elements // columns, -1)
    parts = [slice(0, None)] if n_elements <= WHOLE_TENSOR else [slice(0, SAMPLE_ROWS), slice(len(rows) - SAMPLE_ROWS, None)]
    for part in parts:
        values = dequantise(np.ascontiguousarray(rows[part]), name)
        yield {"tensor": tensor.name, "type": name, "begin": (part.start or 0) * columns, "count": int(values.size),
               "checksum": checksum(values)}


def write(path, lines, head):
    """JSON with one entry a line, so that a difference can be read."""
    text = ",\n".join(f"  {line}" for line in lines)
    path.write_text(f'{{"made_with": "gguf of Python, by scripts/make_dequant_golden.py",\n "{head}": [\n{text}\n]}}\n')
    print(f"{path.relative_to(ROOT)}: {len(lines)} entries")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models-dir", type=pathlib.Path, default=ROOT / "models")
    arguments = parser.parse_args()
    folder = ROOT / "tests" / "golden" / "dequant"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(20240607)
    lines = []
    for name in TYPES:
        blocks = random_blocks(name, rng)
        values = dequantise(blocks, name)
        lines.append(json.dumps({"type": name, "blocks": blocks.tobytes().hex(), "values": values.tobytes().hex()}))
    write(folder / "blocks.json", lines, "types")
    for name in REAL_MODELS:
        path = arguments.models_dir / name
        if not path.exists():
            print(f"{path} is not there: fetch it with scripts/fetch_model.py")
            continue
        entries = [entry for tensor in gguf.GGUFReader(path).tensors for entry in tensor_entries(tensor)]
        write(folder / f"{name}.json", [json.dumps(entry) for entry in entries], "tensors")


if __name__ == "__main__":
    main()
