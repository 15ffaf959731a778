#!/usr/bin/env python3
"""Writes what the Python package gguf, llama.cpp's own, makes of the same numbers: tests/quant/golden/ggml_blocks.json and
tests/weights/golden/small.gguf.

usage: scripts/golden/gguf_files.py [folder of the tests]     needs gguf, numpy; written with 0.19.0, 2.4.6

ggml_blocks.json: values and their blocks in Q8_0 and Q4_0, arrays as hexadecimal digits of their bytes. small.gguf: a file
with a key of every kind that fathom writes and a tensor of every type; weights/gguf_writer_test.cpp makes it again.
"""
import json
import pathlib
import sys

import gguf
import numpy

Q8_0, Q4_0 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0


def blocks_of_values():
    """Rows of 32: weights of many sizes, then what is at an edge."""
    random = numpy.random.default_rng(20)
    rows = [random.standard_normal(32) * scale for scale in (1, 0.02, 0.02, 0.02, 1e-3, 1e-6, 1e-9, 3e4, 1e5)]
    rows += [numpy.zeros(32), -numpy.zeros(32)]
    rows.append(numpy.where(numpy.arange(32) % 2, 1.5, -1.5))  # both signs of the largest magnitude, first the negative
    rows.append(numpy.where(numpy.arange(32) % 2, -1.5, 1.5))
    rows.append((numpy.arange(32) - 15.5) * (127 / 16))  # halves of codes
    rows.append(numpy.concatenate([[127], numpy.arange(31) - 15.5]))  # exactly between two codes of Q8_0
    rows.append(numpy.concatenate([[-8], numpy.arange(31) / 4 - 3.75]))  # and of Q4_0
    rows.append(numpy.concatenate([[5.2e5], random.standard_normal(31)]))  # the largest scale that FP16 holds, nearly
    rows += [random.uniform(-1, 1, 32) for _ in range(100)]
    return numpy.array(rows, dtype=numpy.float32)


def write_blocks(path):
    values = blocks_of_values()
    result = {"values": values.tobytes().hex()}
    for name, kind in (("q8_0", Q8_0), ("q4_0", Q4_0)):
        codes = gguf.quants.quantize(values, kind)
        result[name] = codes.tobytes().hex()
        result[f"{name}_read"] = gguf.quants.dequantize(codes, kind).tobytes().hex()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def write_file(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, "llama")  # its first key
    writer.add_uint32("a.count", 4096)
    writer.add_float32("a.rate", 1e-5)
    writer.add_bool("a.flag", True)
    writer.add_bool("a.other", False)
    writer.add_string("a.text", "▁Übung")
    writer.add_array("a.texts", ["<s>", "a", "Ġb"])
    writer.add_array("a.bytes", b"\x00\x7f\xff")
    writer.add_array("a.numbers", [1, -1, 6])
    writer.add_array("a.scores", [-1.5, 0.0, 1000.25])
    writer.add_array("a.flags", [True, False, True])
    values = blocks_of_values()[:3].reshape(3, 32)
    writer.add_tensor("vector", values[0, :5])
    writer.add_tensor("matrix", values)
    writer.add_tensor("half", values.astype(numpy.float16))
    for name, kind in (("bf16", gguf.GGMLQuantizationType.BF16), ("q8_0", Q8_0), ("q4_0", Q4_0)):
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    tests = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2] / "tests"
    write_blocks(tests / "quant/golden/ggml_blocks.json")
    write_file(tests / "weights/golden/small.gguf")


if __name__ == "__main__":
    main()
