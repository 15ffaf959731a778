"""fathom's CUDA kernels, each by itself, against PyTorch's formulas: run by a Python that has torch. Of sums and functions
in FP64, within a tolerance; of dequantizing in FP32, bit by bit, and with the bandwidth that it reaches on the GPU.

usage: kernels_against_torch.py LIBRARY [--device cpu]      LIBRARY: libfathom_cuda_kernels.so; one JSON object comes out.
--device cpu: for a library that plays them there (tests/ops/cuda_on_cpu.h), which shows that this script works.
"""

import ctypes
import json
import sys

import torch
from mixed_adamw import STORAGES, MixedAdamW, Rows

IGNORED, NORM_SUMS, SQUARES_PER_SUM = -100, 512, 65536
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 8e-3}  # rounded once; relative to the norm


class CodedMatrix(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("codes", ctypes.c_void_p),
        ("values", ctypes.c_int64),
        ("values_per_scale", ctypes.c_int64),
        ("scales", ctypes.c_void_p),
        ("pairs_256x2", ctypes.c_void_p),
        ("dynamic_256", ctypes.c_void_p),
        ("outer_scales", ctypes.c_void_p),
        ("offset", ctypes.c_void_p),
    ]


# The kind, and how many values share a scale: 0 where a row does.
FORMATS = {
    "INT8": (0, 0),
    "FP8": (1, 0),
    "NF4": (2, 64),
    "NF4, double quantization": (2, 64),
    "INT4, groups of 128": (3, 128),
    "INT4, groups of 16": (3, 16),
}


class Norm(ctypes.Structure):
    _fields_ = [("weight", Rows), ("bias", Rows), ("offset", ctypes.c_double), ("eps", ctypes.c_double)]


class SquaredTensor(ctypes.Structure):
    _fields_ = [("values", Rows), ("elements", ctypes.c_int64)]


INT64, POINTER, FLOAT, DOUBLE = ctypes.c_int64, ctypes.c_void_p, ctypes.c_float, ctypes.c_double
FUNCTIONS = {
    "rotate": [Rows, POINTER, POINTER, Rows, INT64, INT64, INT64, INT64, FLOAT, POINTER],
    "swiglu": [Rows, Rows, Rows, INT64, POINTER],
    "swiglu_backward": [Rows, Rows, Rows, Rows, Rows, Rows, INT64, POINTER],
    "norm": [Rows, ctypes.POINTER(Norm), Rows, POINTER, INT64, INT64, POINTER],
    "norm_backward": [Rows, Rows, ctypes.POINTER(Norm), POINTER, Rows, Rows, Rows, POINTER, INT64, INT64, POINTER],
    "cross_entropy": [Rows, POINTER, INT64, FLOAT, POINTER, INT64, INT64, POINTER],
    "dequantize": [ctypes.POINTER(CodedMatrix), Rows, POINTER],
    "fp8_rows": [Rows, POINTER, ctypes.c_int, POINTER, POINTER, INT64, INT64, POINTER],
    "turn_bytes": [POINTER, POINTER, POINTER, INT64, INT64, POINTER],
    "mixed_adamw": [POINTER, POINTER, INT64, POINTER],
    "sums_of_squares": [POINTER, INT64, POINTER, POINTER],
    "norm_of_sums": [POINTER, INT64, DOUBLE, DOUBLE, POINTER, POINTER, POINTER],
}


def open_kernels(library, device, waits=True):
    """The library's table of functions, each checked for the error that it returns, or that comes while it is awaited."""
    if device == "cuda":
        torch.zeros(1, device=device)  # its runtime satisfies the library's symbols
    table = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL).fathom_cuda_kernels
    table.restype = ctypes.POINTER(ctypes.c_void_p)
    addresses = table()

    def checked(name, function):
        def call(*arguments):
            if error := function(*arguments):
                raise SystemExit(f"{name} returned {error}")
            if device == "cuda" and waits:
                torch.cuda.synchronize()

        call.queue = function
        return call

    return {
        name: checked(name, ctypes.CFUNCTYPE(ctypes.c_int, *types)(addresses[place]))
        for place, (name, types) in enumerate(FUNCTIONS.items())
    }


def rows(tensor):
    return Rows(tensor.data_ptr(), 0 if tensor.dtype == torch.float32 else 1)


def word(dtype):
    return "FP32" if dtype == torch.float32 else "BF16"


def difference(actual, expected):
    actual, expected = actual.double(), expected.double()
    return ((actual - expected).norm() / (expected.norm() + 1e-30)).item()


def squared(tensors):
    return (SquaredTensor * len(tensors))(*[SquaredTensor(rows(tensor), tensor.numel()) for tensor in tensors])


def sums_of(tensors):
    return sum(-(-tensor.numel() // SQUARES_PER_SUM) for tensor in tensors)


class Quantized:
    """A matrix of random codes and scales. It holds the tensors that `coded` points to."""

    def __init__(self, name, count, columns, device):
        def parts(of, size):
            return (of + size - 1) // size

        def draw(size, low, high):
            return torch.rand(size, device=device) * (high - low) + low

        kind, block = FORMATS[name]
        self.values, self.four_bits, self.high_first = count * columns, block > 0, kind == 2
        self.shared = block or columns
        self.codes = torch.randint(
            256, [parts(self.values, 2) if self.four_bits else self.values], device=device, dtype=torch.uint8
        )
        scales = parts(self.values, self.shared)
        self.outer = self.dynamic = self.pairs = self.numbers = None
        if name.endswith("double quantization"):
            self.scales = torch.randint(256, [scales], device=device, dtype=torch.uint8)
            self.dynamic, self.outer = draw(256, -1, 1), draw(parts(scales, 256) + 1, 0.01, 0.1)
        else:
            self.scales = draw(scales, 0.001, 0.1)
        if self.four_bits:
            self.numbers = draw(16, -1, 1) if self.high_first else torch.arange(-8.0, 8.0, device=device)
            high, low = self.numbers.repeat_interleave(16), self.numbers.repeat(16)
            self.pairs = torch.stack([high, low] if self.high_first else [low, high], 1).contiguous()
        elif kind == 0:
            self.numbers = torch.arange(256, device=device).to(torch.int8).float()
        else:
            self.numbers = torch.arange(256, device=device, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
        offset = None if self.outer is None else self.outer[-1:]
        tables = [
            None if tensor is None else tensor.data_ptr() for tensor in (self.pairs, self.dynamic, self.outer, offset)
        ]
        self.coded = CodedMatrix(kind, self.codes.data_ptr(), self.values, self.shared, self.scales.data_ptr(), *tables)

    def bytes(self):
        return sum(tensor.nbytes for tensor in (self.codes, self.scales, self.outer) if tensor is not None)

    def formula(self, dtype):
        codes, scales = self.codes, self.scales
        if self.four_bits:
            halves = [codes >> 4, codes & 15] if self.high_first else [codes & 15, codes >> 4]
            codes = torch.stack(halves, 1).view(-1)[: self.values]
        if self.outer is not None:
            outer = self.outer[:-1].repeat_interleave(256)[: len(scales)]
            scales = self.dynamic[scales.int()] * outer + self.outer[-1]
        return (self.numbers[codes.int()] * scales.repeat_interleave(self.shared)[: self.values]).to(dtype)


class Check:
    def __init__(self, kernels, device):
        self.kernels, self.device, self.rows = kernels, device, []

    def draw(self, shape, dtype, aligned, spread=1):
        """At an address where the widest accesses may begin, or one element beyond."""
        count = torch.Size(shape).numel()
        values = (torch.randn(count + 1, device=self.device) * spread).to(dtype)
        return values[0 if aligned else 1 :][:count].view(shape)

    def hold(self, what, dtype, actual, expected):
        self.rows.append(
            {"what": f"{what}, {word(dtype)}", "difference": difference(actual, expected), "allowed": TOLERANCE[dtype]}
        )

    def swiglu(self, dtype, elements, aligned):
        gate, up, grad = (self.draw([elements], dtype, aligned, spread) for spread in (4, 1, 1))
        out, grad_gate, grad_up = (torch.empty_like(gate) for _ in range(3))
        self.kernels["swiglu"](rows(gate), rows(up), rows(out), elements, None)
        again = grad.clone()
        self.kernels["swiglu_backward"](
            rows(again), rows(gate), rows(up), rows(grad_gate), rows(grad_up), rows(again), elements, None
        )
        wide = [tensor.double().requires_grad_() for tensor in (gate, up)]
        expected = torch.nn.functional.silu(wide[0]) * wide[1]
        expected.backward(grad.double())
        what = f"swiglu of {elements:,}" + ("" if aligned else ", unaligned")
        self.hold(what, dtype, out, expected.detach())
        self.hold(what + ", made again", dtype, again, expected.detach())
        self.hold(what + ", gradient of gate", dtype, grad_gate, wide[0].grad)
        self.hold(what + ", gradient of up", dtype, grad_up, wide[1].grad)

    def rotate(self, dtype, batch, length, heads, size):
        angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, size, 2) / size)).to(self.device)
        cos, sin = angles.cos().float().contiguous(), angles.sin().float().contiguous()
        x = self.draw([batch, length, heads, size], dtype, size != 16)
        out, back = torch.empty_like(x), torch.empty_like(x)
        for source, target, direction in ((x, out, 1.0), (out, back, -1.0)):
            self.kernels["rotate"](
                rows(source),
                cos.data_ptr(),
                sin.data_ptr(),
                rows(target),
                x.numel() // size,
                heads,
                length,
                size,
                direction,
                None,
            )
        first, second = x.double().chunk(2, -1)
        c, s = (table.double()[None, :, None, :] for table in (cos, sin))
        expected = torch.cat([first * c - second * s, second * c + first * s], -1)
        what = f"rotate of {batch} × {length} × {heads} × {size}"
        self.hold(what, dtype, out, expected)
        self.hold(what + ", and back", dtype, back, x)

    def norm(self, dtype, of_weight, of_out, count, width):
        x, stream = self.draw([count, width], dtype, True, 2), self.draw([count, width], dtype, True)
        weight, grad = self.draw([width], of_weight, True), self.draw([count, width], of_out, True)
        out, alone, met, grad_weight = map(torch.empty_like, (grad, x, x, weight))
        rstd = torch.empty(count, device=self.device)
        sums = torch.empty(min(count, NORM_SUMS), width, device=self.device)
        norm, nothing = Norm(rows(weight), Rows(None, 0), 0.5, 1e-3), Rows(None, 0)
        self.kernels["norm"](rows(x), norm, rows(out), rstd.data_ptr(), count, width, None)
        for stream_rows, made, weight_rows in ((nothing, alone, nothing), (rows(stream), met, rows(grad_weight))):
            self.kernels["norm_backward"](
                rows(grad),
                rows(x),
                norm,
                rstd.data_ptr(),
                stream_rows,
                rows(made),
                weight_rows,
                sums.data_ptr(),
                count,
                width,
                None,
            )
        wide, wide_weight = (tensor.double().requires_grad_() for tensor in (x, weight))
        expected = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-3) * (wide_weight + 0.5)
        expected.backward(grad.double())
        what = f"norm of {count:,} × {width:,} by a weight in {word(of_weight)}, to {word(of_out)}"
        self.hold(what, of_out, out, expected.detach())
        self.hold(what + ", gradient", dtype, alone, wide.grad)
        self.hold(what + ", gradient with the stream's", dtype, met, wide.grad + stream)
        self.hold(what + ", gradient of the weight", of_weight, grad_weight, wide_weight.grad)

    def cross_entropy(self, dtype, count, vocabulary, aligned):
        logits = self.draw([count, vocabulary], dtype, aligned, 3)
        targets = torch.randint(vocabulary, [count], device=self.device)
        targets[::7] = IGNORED
        wide = logits.double().requires_grad_()
        expected = torch.nn.functional.cross_entropy(wide, targets, ignore_index=IGNORED, reduction="none")
        (expected.sum() * 0.25).backward()
        losses = torch.empty(count, device=self.device)
        self.kernels["cross_entropy"](
            rows(logits), targets.data_ptr(), IGNORED, 0.25, losses.data_ptr(), count, vocabulary, None
        )
        what = f"cross_entropy of {count:,} × {vocabulary:,}" + ("" if aligned else ", unaligned")
        self.hold(what, torch.float32, losses, expected.detach())
        self.hold(what + ", gradient", dtype, logits, wide.grad)

    def dequantize(self, dtype, name, count, columns):
        matrix = Quantized(name, count, columns, self.device)
        for aligned in (True, False):
            out = self.draw([matrix.values], dtype, aligned)
            self.kernels["dequantize"](matrix.coded, rows(out), None)
            expected = matrix.formula(dtype)
            wrong = (out != expected) & ~(out.isnan() & expected.isnan())
            what = f"dequantize {name}, {count:,} × {columns:,}" + ("" if aligned else ", unaligned")
            self.rows.append(
                {"what": f"{what}, {word(dtype)}", "difference": wrong.float().mean().item(), "allowed": 0}
            )

    def fp8_rows(self, dtype, count, width):
        x, columns = self.draw([count, width], dtype, True, 3), torch.randn(width, device=self.device).exp()
        for format, (kind, most) in enumerate(((torch.float8_e4m3fn, 448.0), (torch.float8_e5m2, 57344.0))):
            codes, scales = torch.empty_like(x, dtype=kind), torch.empty(count, 1, device=self.device)
            self.kernels["fp8_rows"](
                rows(x), columns.data_ptr(), format, codes.data_ptr(), scales.data_ptr(), count, width, None
            )
            wide = x.float() * columns
            largest = wide.abs().amax(1, keepdim=True)
            expected = (wide * torch.full_like(largest, most).div(largest)).clamp(-most, most).to(kind)
            what = f"rows of {count:,} × {width:,} in {str(kind).removeprefix('torch.')}"
            wrong = codes.view(torch.uint8) != expected.view(torch.uint8)
            self.rows.append(
                {"what": f"{what}, {word(dtype)}", "difference": wrong.float().mean().item(), "allowed": 0}
            )
            self.hold(what + ", scales", torch.float32, scales, largest / most)

    def turn_bytes(self, count, width):
        codes = torch.randint(256, [count, width], device=self.device, dtype=torch.uint8)
        turned = torch.empty(width, count, device=self.device, dtype=torch.uint8)
        self.kernels["turn_bytes"](codes.data_ptr(), turned.data_ptr(), None, count, width, None)
        wrong = (turned != codes.t()).float().mean().item()
        self.rows.append({"what": f"{count:,} × {width:,} bytes turned", "difference": wrong, "allowed": 0})

    def gradient_norm(self, sizes, max_norm, loss_scale):
        """Of FP32 and BF16 by turns, the half of them where no wide access may begin."""
        gradients = [
            self.draw([size], (torch.float32, torch.bfloat16)[place % 2], place % 4 < 2)
            for place, size in enumerate(sizes)
        ]
        tensors = squared(gradients)
        sums = torch.full([sums_of(gradients)], float("nan"), device=self.device)
        total, factor = (torch.full([1], float("nan"), device=self.device) for _ in range(2))
        self.kernels["sums_of_squares"](tensors, len(tensors), sums.data_ptr(), None)
        self.kernels["norm_of_sums"](
            sums.data_ptr(), len(sums), max_norm, loss_scale, total.data_ptr(), factor.data_ptr(), None
        )
        norm = sum(gradient.double().square().sum() for gradient in gradients).sqrt() / loss_scale
        wanted = (max_norm / (norm + 1e-6)).clamp(max=1) if max_norm > 0 else torch.ones_like(norm)
        limits = f"at most {max_norm:g}, loss scale {loss_scale}"
        what = f"gradient norm of {len(sizes)} tensors, {sum(sizes):,} numbers, {limits}"
        self.hold(what, torch.float32, total, norm)
        self.hold(what + ", factor", torch.float32, factor, wanted / loss_scale)

    def mixed_adamw(self, storages, sizes):
        updates = [MixedAdamW(storage, sizes, self.device) for storage in storages]
        expected = [update.expected() for update in updates]
        updates[0].together_with(updates[1:])
        updates[0].call(self.kernels["mixed_adamw"])
        for storage, update, wanted in zip(storages, updates, expected, strict=True):
            for name, found, allowed in update.differences(wanted):
                among = f" among {len(storages)} kinds" if len(storages) > 1 else ""
                what = f"AdamW, {storage.title}, of {len(sizes)} parameters{among}: {name}"
                self.rows.append({"what": what, "difference": found, "allowed": allowed})


def bandwidth(kernels, dtype, name, count, columns, matrices=4, times=40):
    """Of dequantizing one matrix after the other, so many that no cache holds them."""
    quantized = [Quantized(name, count, columns, "cuda") for _ in range(matrices)]
    outs = [torch.empty(count * columns, dtype=dtype, device="cuda") for _ in range(matrices)]
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for turn in range(matrices + times):
        if turn == matrices:
            begin.record()
        kernels["dequantize"](quantized[turn % matrices].coded, rows(outs[turn % matrices]), None)
    end.record()
    torch.cuda.synchronize()
    milliseconds = begin.elapsed_time(end) / times
    moved = quantized[0].bytes() + outs[0].nbytes
    what = f"dequantize {name}, {count:,} × {columns:,}, {word(dtype)}"
    return {"what": what, "ms": milliseconds, "bytes": moved, "GB/s": moved / milliseconds / 1e6}


def streams(kernels, times=40):
    """Time and bandwidth of the kernels that only pass over memory, at a layer's shapes in BF16: four sets by turns."""

    def tensors(*shapes, dtype=torch.bfloat16):
        return [torch.empty(shape, dtype=dtype, device="cuda").fill_(1) for shape in shapes]

    def calls():
        """Name, bytes moved and arguments of each, and the tensors that these point to."""
        x, grad, out, stream = tensors(*[(8192, 2048)] * 4)
        weight, grad_weight = tensors(2048, 2048)
        rstd, sums = tensors(8192, (NORM_SUMS, 2048), dtype=torch.float32)
        norm, nothing, row = Norm(rows(weight), Rows(None, 0), 0, 1e-5), Rows(None, 0), x.nbytes
        back = rows(grad), rows(x), norm, rstd.data_ptr(), rows(stream), rows(out)
        shape = 8192, 2048, None
        gate, up, grad_gate, grad_up, inner = tensors(*[(4096, 14336)] * 5)
        gates, size = (rows(inner), rows(gate), rows(up), rows(grad_gate), rows(grad_up)), inner.numel()
        codes, turned = tensors((4096, 14336), (14336, 4096), dtype=torch.uint8)
        scales, columns = tensors(4096, 14336, dtype=torch.float32)
        in_codes = codes.data_ptr(), scales.data_ptr(), 4096, 14336, None
        with_weight = rows(grad_weight), sums.data_ptr(), *shape
        gradients = [gate, up, grad_gate, grad_up]
        of_gradients, count = squared(gradients), 131072  # sums of an 8B model
        squares, total = tensors(count, 2, dtype=torch.float32)
        of_sums = squares.data_ptr(), count, 1.0, 1.0, total.data_ptr(), total[1:].data_ptr(), None
        found = {
            "norm, 8,192 × 2,048": ("norm", 2 * row, rows(x), norm, rows(out), rstd.data_ptr(), *shape),
            "norm, backward with the stream": ("norm_backward", 4 * row, *back, nothing, None, *shape),
            "norm, backward with stream and weight": ("norm_backward", 4 * row, *back, *with_weight),
            "swiglu, 4,096 × 14,336": ("swiglu", 6 * size, rows(gate), rows(up), rows(inner), size, None),
            "swiglu, backward": ("swiglu_backward", 10 * size, *gates, nothing, size, None),
            "swiglu, backward and made again": ("swiglu_backward", 12 * size, *gates, rows(inner), size, None),
            "rows in E4M3, 4,096 × 14,336": ("fp8_rows", 3 * size, rows(gate), None, 0, *in_codes),
            "rows in E5M2, by columns": ("fp8_rows", 3 * size, rows(gate), columns.data_ptr(), 1, *in_codes),
            f"gradient norm, sums of {4 * size:,} in BF16": (
                "sums_of_squares",
                8 * size,
                of_gradients,
                len(gradients),
                squares.data_ptr(),
                None,
            ),
            f"gradient norm, of {count:,} sums": ("norm_of_sums", 4 * count, *of_sums),
            "bytes turned": ("turn_bytes", 2 * size, codes.data_ptr(), turned.data_ptr(), None, 4096, 14336, None),
        }
        return found, dict(locals())

    made = [calls() for _ in range(4)]
    for what in made[0][0]:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for turn in range(len(made) + times):
            if turn == len(made):
                begin.record()
            name, moved, *arguments = made[turn % len(made)][0][what]
            kernels[name](*arguments)
        end.record()
        torch.cuda.synchronize()
        milliseconds = begin.elapsed_time(end) / times
        yield {"what": what, "ms": milliseconds, "bytes": moved, "GB/s": moved / milliseconds / 1e6}


def main():
    library, device = sys.argv[1], "cpu" if sys.argv[2:] == ["--device", "cpu"] else "cuda"
    check = Check(open_kernels(library, device), device)
    torch.manual_seed(11)
    large = 1 if device == "cuda" else 0  # the shapes of a training step
    for dtype in TOLERANCE:
        for elements, aligned in (
            (1, True),
            (4096, True),
            (4096, False),
            (2051, True),
            *[(4096 * 14336, True)] * large,
        ):
            check.swiglu(dtype, elements, aligned)
        for shape in ((2, 9, 3, 2), (2, 9, 3, 10), (2, 9, 3, 16), (2, 9, 3, 64), *[(2, 2048, 32, 128)] * large):
            check.rotate(dtype, *shape)
        for count, width in (
            (3, 8),
            (515, 24),
            (5, 2040),
            (2, 8200),
            *[(8192, 2048), (4096, 4096), (3, 16384)] * large,
        ):
            for of_weight, of_out in ((dtype, dtype), (torch.float32, dtype), (torch.float32, torch.bfloat16)):
                check.norm(dtype, of_weight, of_out, count, width)
        for count, vocabulary, aligned in (
            (3, 5, True),
            (9, 1031, True),
            (9, 4096, False),
            *[(1024, 128256, True)] * large,
        ):
            check.cross_entropy(dtype, count, vocabulary, aligned)
        for count, width in ((3, 8), (5, 264), (2, 4104), *[(4096, 14336)] * large):
            check.fp8_rows(dtype, count, width)
        for name in FORMATS:
            for count, columns in ((1, 128), (5, 384), (130, 640), *[(14336, 4096)] * large):
                check.dequantize(dtype, name, count, columns)
        for name in ("INT8", "FP8", "NF4", "NF4, double quantization"):
            for count, columns in ((1, 1), (7, 51), (65, 33)):
                check.dequantize(dtype, name, count, columns)
    for count, width in ((16, 16), (64, 128), (80, 176), *[(14336, 4096)] * large):
        check.turn_bytes(count, width)
    fast = open_kernels(library, device, waits=False)
    reached = [bandwidth(fast, dtype, name, 14336, 4096) for dtype in TOLERANCE for name in FORMATS if large]
    reached += streams(fast) if large else []
    for storage in STORAGES:
        check.mixed_adamw([storage], [1, 255, 256, 257, 4096 + 3, *[1000 * 1000 + 1] * large])
    check.mixed_adamw(STORAGES, [7, 300, 5000] * 15)  # more than one launch takes
    for max_norm, loss_scale in ((0, 1), (1, 1), (1e9, 64)):
        check.gradient_norm([1, 3, 255, 4099, 70001, *[14336 * 4096] * 4 * large], max_norm, loss_scale)
    check.gradient_norm([5] * 1400, 1, 1)  # more than one launch takes
    queue = check.kernels["mixed_adamw"].queue
    timings = [MixedAdamW(storage, [25_000_000] * 4, device).timing(queue) for storage in STORAGES * large]
    found = {"torch": torch.__version__, "rows": check.rows, "bandwidth": reached, "timings": timings}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
