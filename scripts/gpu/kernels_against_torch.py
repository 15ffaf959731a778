"""fathom's CUDA kernels, each by itself, against PyTorch's formulas in FP64: run by a Python that has torch.

usage: kernels_against_torch.py LIBRARY [--device cpu]      LIBRARY: libfathom_cuda_kernels.so; one JSON object comes out.
--device cpu: for a library that plays them there (tests/ops/cuda_on_cpu.h), which shows that this script works.
"""

import ctypes
import json
import sys

import torch

IGNORED = -100
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 8e-3}  # rounded once; relative to the norm


class Rows(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("type", ctypes.c_int)]


INT64, POINTER, FLOAT = ctypes.c_int64, ctypes.c_void_p, ctypes.c_float
FUNCTIONS = {
    "rotate": [Rows, POINTER, POINTER, Rows, INT64, INT64, INT64, INT64, FLOAT, POINTER],
    "swiglu": [Rows, Rows, Rows, INT64, POINTER],
    "swiglu_backward": [Rows, Rows, Rows, Rows, Rows, INT64, POINTER],
    "cross_entropy": [Rows, POINTER, INT64, FLOAT, POINTER, INT64, INT64, POINTER],
}


def open_kernels(library, device):
    """The library's table of functions, each checked for the error that it returns."""
    if device == "cuda":
        torch.zeros(1, device=device)  # its runtime satisfies the library's symbols
    table = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL).fathom_cuda_kernels
    table.restype = ctypes.POINTER(ctypes.c_void_p)
    addresses = table()

    def checked(name, function):
        def call(*arguments):
            if error := function(*arguments):
                raise SystemExit(f"{name} returned {error}")
            if device == "cuda":
                torch.cuda.synchronize()

        return call

    return {
        name: checked(name, ctypes.CFUNCTYPE(ctypes.c_int, *types)(addresses[place]))
        for place, (name, types) in enumerate(FUNCTIONS.items())
    }


def rows(tensor):
    return Rows(tensor.data_ptr(), 0 if tensor.dtype == torch.float32 else 1)


def difference(actual, expected):
    actual, expected = actual.double(), expected.double()
    return ((actual - expected).norm() / (expected.norm() + 1e-30)).item()


class Check:
    def __init__(self, kernels, device):
        self.kernels, self.device, self.rows = kernels, device, []

    def draw(self, shape, dtype, aligned, spread=1):
        """At an address where the widest accesses may begin, or one element beyond."""
        count = torch.Size(shape).numel()
        values = (torch.randn(count + 1, device=self.device) * spread).to(dtype)
        return values[0 if aligned else 1 :][:count].view(shape)

    def hold(self, what, dtype, actual, expected):
        name = f"{what}, {'FP32' if dtype == torch.float32 else 'BF16'}"
        self.rows.append({"what": name, "difference": difference(actual, expected), "allowed": TOLERANCE[dtype]})

    def swiglu(self, dtype, elements, aligned):
        gate, up, grad = (self.draw([elements], dtype, aligned, spread) for spread in (4, 1, 1))
        out, grad_gate, grad_up = (torch.empty_like(gate) for _ in range(3))
        self.kernels["swiglu"](rows(gate), rows(up), rows(out), elements, None)
        self.kernels["swiglu_backward"](
            rows(grad), rows(gate), rows(up), rows(grad_gate), rows(grad_up), elements, None
        )
        wide = [tensor.double().requires_grad_() for tensor in (gate, up)]
        expected = torch.nn.functional.silu(wide[0]) * wide[1]
        expected.backward(grad.double())
        what = f"swiglu of {elements:,}" + ("" if aligned else ", unaligned")
        self.hold(what, dtype, out, expected.detach())
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
        for count, vocabulary, aligned in (
            (3, 5, True),
            (9, 1031, True),
            (9, 4096, False),
            *[(1024, 128256, True)] * large,
        ):
            check.cross_entropy(dtype, count, vocabulary, aligned)
    print(json.dumps({"torch": torch.__version__, "rows": check.rows}))


if __name__ == "__main__":
    main()
