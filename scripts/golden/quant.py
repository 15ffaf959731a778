#!/usr/bin/env python3
"""Writes tests/quant/golden/*.json: what the libraries that others quantize with make of the same numbers.

usage: scripts/golden/quant.py [folder]     needs torch, ml_dtypes, bitsandbytes, torchao, compressed-tensors, xxhash;
                                            written with 2.11, 0.6.0, 0.50.2, 0.18.0, 0.20.0, 4.1

floats.json: XXH3-128 of the FP32 values of all codes of a format, and of the codes that torch's casts give to a list of
numbers which quant/float_format_test.cpp makes too; torch and ml_dtypes must agree. blocks.json: a matrix and its codes,
arrays as hexadecimal digits of their bytes. dynamic.json: the same for 8-bit dynamic codes. bitsandbytes' operators are
called as its default backend has them: its CPU library looks its 8-bit codes up in a table of 65,536 steps, its CUDA
kernels divide approximately.
"""
import json
import pathlib
import sys

import bitsandbytes
import ml_dtypes
import numpy
import torch
import xxhash
from bitsandbytes import functional
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import quantize
from compressed_tensors.quantization.utils import calculate_qparams
from torchao.quantization.quant_primitives import _choose_scale_float8, _quantize_affine_float8

DEFAULT = torch._C.DispatchKeySet(torch._C.DispatchKey.CompositeExplicitAutograd)
FLOATS = {  # torch's and ml_dtypes' type, bytes, the code that stands for every NaN
    "FP16": (torch.float16, numpy.float16, 2, 0x7E00),
    "BF16": (torch.bfloat16, ml_dtypes.bfloat16, 2, 0x7FC0),
    "FP8 E4M3": (torch.float8_e4m3fn, ml_dtypes.float8_e4m3fn, 1, 0x7F),
    "FP8 E5M2": (torch.float8_e5m2, ml_dtypes.float8_e5m2, 1, 0x7E),
}
# Below each upper half of FP32: around the ties of BF16 and FP16, and the exact numbers.
LOWER_HALVES = [0, 1, 0x0FFF, 0x1000, 0x1001, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF]


def digits(values):
    """Bytes of an array, as hexadecimal digits."""
    values = values.detach().contiguous().view(-1).view(torch.uint8) if torch.is_tensor(values) else values
    return values.numpy().tobytes().hex()


def digest(values):
    return xxhash.xxh3_128_hexdigest(values.tobytes())


def canonical(codes, decoded, nan):
    return numpy.where(numpy.isnan(decoded), codes.dtype.type(nan), codes)


def floats():
    upper = numpy.arange(65536, dtype=numpy.uint32) << 16
    inputs = (upper[:, None] | numpy.array(LOWER_HALVES, dtype=numpy.uint32)).reshape(-1).view(numpy.float32)
    result = {}
    for name, (torch_type, numpy_type, size, nan) in FLOATS.items():
        unsigned = numpy.uint16 if size == 2 else numpy.uint8
        codes = numpy.arange(1 << (8 * size)).astype(unsigned)
        decoded = torch.from_numpy(codes.copy()).view(torch_type).float().numpy()
        assert numpy.array_equal(decoded, codes.view(numpy_type).astype(numpy.float32), equal_nan=True)
        decoded[numpy.isnan(decoded)] = numpy.float32("nan")
        torch_unsigned = torch.uint16 if size == 2 else torch.uint8
        encoded = torch.from_numpy(inputs).to(torch_type).view(torch_unsigned).numpy()
        encoded = canonical(encoded, encoded.view(numpy_type).astype(numpy.float32), nan)
        with numpy.errstate(over="ignore", invalid="ignore"):
            other = inputs.astype(numpy_type).view(unsigned)
        other = canonical(other, other.view(numpy_type).astype(numpy.float32), nan)
        assert numpy.array_equal(encoded, other), name
        result[name] = {"nan": nan, "values": digest(decoded), "codes": digest(encoded)}
    return {"lower_halves": LOWER_HALVES, "formats": result}


def matrix():
    """64 rows of 64 FP32 numbers: as weights are, and as they are not."""
    generator = torch.Generator().manual_seed(7)
    rows = torch.randn(64, 64, generator=generator) * 0.02
    rows[8:16] = rows[8:16].bfloat16().float()
    rows[16:24] = rows[16:24].half().float()
    rows[24] *= 1e-20
    rows[25] *= 1e30
    rows[26] = torch.arange(64) - 31.5  # ties of INT8, with the largest below
    rows[26, 63] = 127
    rows[27] = (torch.arange(64) - 31.5) * 2 / 15  # and of INT4
    rows[27, 0], rows[27, 32] = 7.5, -7.5
    rows[28] = torch.tensor([448 - 8 * i for i in range(64)]).float()  # and of FP8
    rows[29] = rows[29].abs()
    rows[30] = -rows[30].abs()
    rows[31] = 0.25
    rows[32, 5] = 3  # an outlier
    rows[33, 7:32] = 0
    rows[34, 1:] *= 1e-6
    rows[35, 1:32] = 1e-41
    rows[36:40, 32:] *= 0.01
    return rows


def int8(rows):
    codes, stats, _ = torch.ops.bitsandbytes.int8_vectorwise_quant.default.redispatch(DEFAULT, rows.clone())
    read = functional.int8_vectorwise_dequant(codes, stats)
    return {"codes": digits(codes), "largest": digits(stats), "values": digits(read)}


def fp8(rows):
    scale = _choose_scale_float8(rows, [1, rows.shape[1]])
    codes = _quantize_affine_float8(rows, scale)
    arguments = QuantizationArgs(num_bits=8, type="float", strategy="channel", symmetric=True)
    other, _ = calculate_qparams(rows.amin(1, keepdim=True), rows.amax(1, keepdim=True), arguments)
    assert torch.equal(scale, other)
    return {"codes": digits(codes), "scales": digits(scale), "values": digits(codes.float() * scale)}


def nf4(rows):
    code = functional.get_4bit_type("nf4", device="cpu")
    codes, scales = torch.ops.bitsandbytes.quantize_4bit.default.redispatch(DEFAULT, rows, 64, "nf4", torch.uint8)
    read = torch.ops.bitsandbytes.dequantize_4bit.default.redispatch(
        DEFAULT, codes, scales, 64, "nf4", list(rows.shape), torch.float32)
    return {"table": digits(code), "codes": digits(codes), "scales": digits(scales), "values": digits(read)}


def double_quantization():
    generator = torch.Generator().manual_seed(11)
    scales = torch.randn(600, 64, generator=generator).mul(0.02).abs().amax(1)
    scales[17] = 0.4
    offset = scales.mean()
    code = functional.create_dynamic_map()
    codes, outer = torch.ops.bitsandbytes.quantize_blockwise.default.redispatch(DEFAULT, scales - offset, code, 256)
    library, _ = torch.ops.bitsandbytes.quantize_blockwise.default(scales - offset, code, 256)
    read = torch.ops.bitsandbytes.dequantize_blockwise.default(codes, outer, code, 256, torch.float32) + offset
    return {"table": digits(code), "scales": digits(scales), "offset": digits(offset.view(1)), "codes": digits(codes),
            "codes_of_its_cpu_library": digits(library), "outer": digits(outer), "values": digits(read)}


def dynamic():
    """Both 8-bit dynamic maps on blocks of moments: of very different size, zeros and a block of zeros among them."""
    generator = torch.Generator().manual_seed(13)
    values = torch.randn(8 * 256, generator=generator) * torch.logspace(-7, 1, 8 * 256)
    values = values[torch.randperm(8 * 256, generator=generator)]
    values[256:512] *= 1e-12
    values[512:768] = 0
    values[800] = 0
    result = {}
    for name, signed, numbers in (("signed", True, values), ("unsigned", False, values.square())):
        code = functional.create_dynamic_map(signed=signed)
        codes, scales = torch.ops.bitsandbytes.quantize_blockwise.default.redispatch(DEFAULT, numbers, code, 256)
        read = torch.ops.bitsandbytes.dequantize_blockwise.default(codes, scales, code, 256, torch.float32)
        result[name] = {"table": digits(code), "values": digits(numbers), "codes": digits(codes),
                        "scales": digits(scales), "read": digits(read)}
    return result


def int4(rows):
    group = 32
    arguments = QuantizationArgs(num_bits=4, type="int", strategy="group", group_size=group, symmetric=True)
    groups = rows.view(rows.shape[0], -1, group)
    scales, zeros = calculate_qparams(groups.amin(2), groups.amax(2), arguments)
    codes = quantize(rows, scales, zeros, arguments, dtype=torch.int8)
    packed = pack_to_int32(codes, 4)
    read = (codes.view(groups.shape).float() * scales[:, :, None]).view(rows.shape)
    return {"codes": digits(packed), "scales": digits(scales), "values": digits(read)}


def main():
    default = pathlib.Path(__file__).resolve().parents[2] / "tests" / "quant" / "golden"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    rows = matrix()
    blocks = {"rows": digits(rows), "int8": int8(rows), "fp8": fp8(rows), "nf4": nf4(rows), "int4": int4(rows),
              "scales": double_quantization()}
    for name, value in {"floats": floats(), "blocks": blocks, "dynamic": dynamic()}.items():
        (folder / f"{name}.json").write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    main()
