"""What LibTorch's operators take on this GPU, one by one: run by a Python that has torch; one JSON object comes out.

Products at the shapes of training steps, forwards and backwards, thin ones of adapters and in FP8 among them; attention by each
library, with the memory that it asks for; what streams bytes; copies over the link. Each is timed over as many inputs as no cache
holds, on random numbers: on zeros a GPU computes faster.
"""

import json
import subprocess
import sys
import time

sys.path.pop(0)  # this folder: torch's profiler imports Python's profile, and here is another one

import torch  # noqa: E402

BF16, FP8, FP32 = torch.bfloat16, torch.float8_e4m3fn, torch.float32
CACHE_BYTES = 120e6  # more than twice an H100's second level
SPENT_MS = 15  # about, on each operator

# Width, and the outputs of a product: of 135M, 1B, 7B and 8B models, fused projections and heads among them.
LAYERS = [(576, 576), (576, 192), (576, 960), (576, 1536), (576, 3072), (1536, 576)]
LAYERS += [(2048, 2048), (2048, 512), (2048, 3072), (2048, 8192), (2048, 16384), (8192, 2048)]
LAYERS += [(4096, 4096), (4096, 1024), (4096, 6144), (4096, 14336), (4096, 28672), (14336, 4096)]
LAYERS += [(3584, 3584), (3584, 512), (3584, 18944), (18944, 3584)]
HEADS = [(576, 49152), (2048, 128256), (4096, 128256)]
ROWS_OF_HEADS = [261, 1024, 2048, 4096]
ADAPTERS = [(4096, 8), (4096, 16), (4096, 24), (4096, 64), (14336, 8), (1024, 8)]
# Rows, heads, heads of keys, length, head size.
ATTENTION = [
    (4, 9, 3, 512, 64),
    (4, 32, 8, 2048, 64),
    (2, 32, 8, 2048, 128),
    (2, 32, 8, 4096, 128),
    (1, 32, 8, 8192, 128),
]
ATTENTION += [
    (1, 32, 8, 2048, 128),
    (2, 28, 4, 2048, 128),
    (2, 32, 32, 2048, 128),
    (8, 12, 12, 512, 64),
    (2, 16, 8, 1024, 256),
]
ATTENTION += [(2, 32, 8, 1000, 128), (3, 32, 8, 77, 128)]
SIZES = [2**n for n in range(12, 29, 2)]  # numbers that stream


def time_ms(call, sets):
    """The median of five rounds of `call(*inputs)`, each of whole turns over `sets`."""
    for inputs in sets:
        call(*inputs)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def run(turns):
        begin.record()
        for _ in range(turns):
            for inputs in sets:
                call(*inputs)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / turns / len(sets)

    once = run(1)
    turns = max(1, min(50, int(SPENT_MS / 5 / max(once, 0.004) / len(sets))))
    return sorted(run(turns) for _ in range(5))[2]


def drawn(*shape, dtype=BF16):
    return torch.randn(*shape, device="cuda", dtype=FP32 if dtype == FP8 else dtype).to(dtype)


def sets_of(make):
    """Enough sets of inputs that none is still in the cache when its turn comes."""
    first = make()
    size = sum(tensor.nbytes for tensor in first)
    return [first, *[make() for _ in range(min(40, int(CACHE_BYTES / max(size, 1))))]]


def product(kind, m, k, n, dtype=BF16):
    """As a linear layer of `k` to `n` multiplies m rows: its output, the gradient of its input, or of its weight."""
    if dtype == FP8:
        scale = [torch.ones(rows, 1, device="cuda") for rows in (m, n)]
        sets = sets_of(lambda: (drawn(m, k, dtype=FP8), drawn(n, k, dtype=FP8)))
        by_rows = lambda x, w: torch._scaled_mm(x, w.t(), scale[0], scale[1].t(), out_dtype=BF16, use_fast_accum=True)
        whole = torch.ones((), device="cuda")
        by_tensor = lambda x, w: torch._scaled_mm(x, w.t(), whole, whole, out_dtype=BF16, use_fast_accum=True)
        call = by_rows if kind == "output, scales of rows" else by_tensor
    elif kind == "output":
        sets, call = (
            sets_of(lambda: (drawn(m, k, dtype=dtype), drawn(n, k, dtype=dtype))),
            lambda x, w: torch.mm(x, w.t()),
        )
    elif kind == "gradient of input":
        sets, call = sets_of(lambda: (drawn(m, n, dtype=dtype), drawn(n, k, dtype=dtype))), torch.mm
    elif kind == "sum of gradients of input":
        sets = sets_of(lambda: (drawn(m, k, dtype=dtype), drawn(m, n, dtype=dtype), drawn(n, k, dtype=dtype)))
        call = lambda out, dy, w: out.addmm_(dy, w)
    elif kind == "gradient of weight":
        sets, call = (
            sets_of(lambda: (drawn(m, n, dtype=dtype), drawn(m, k, dtype=dtype))),
            lambda dy, x: torch.mm(dy.t(), x),
        )
    elif kind == "gradient of weight, FP32":
        sets = sets_of(lambda: (drawn(m, n, dtype=dtype), drawn(m, k, dtype=dtype)))
        call = lambda dy, x: torch.mm(dy.t(), x, out_dtype=FP32)
    else:  # "gradient of weight, summed"
        sets = sets_of(lambda: (drawn(n, k, dtype=dtype), drawn(m, n, dtype=dtype), drawn(m, k, dtype=dtype)))
        call = lambda out, dy, x: out.addmm_(dy.t(), x)
    milliseconds = time_ms(call, sets)
    what = f"{kind}, {m:,} × {k:,} → {n:,}, {'FP8' if dtype == FP8 else 'FP32' if dtype == FP32 else 'BF16'}"
    return {
        "what": what,
        "kind": kind,
        "shape": [m, k, n],
        "ms": milliseconds,
        "TFLOP/s": 2 * m * k * n / milliseconds / 1e9,
    }


def products():
    """Arguments of `product`."""
    for m in (2048, 4096, 8192, 16384):
        for k, n in LAYERS:
            small, large = k * n < 2e6, k * n >= 16e6
            if (small and m > 4096) or (m == 16384 and not large):
                continue
            kinds = ["output", "gradient of input", "gradient of weight"]
            if m == 4096:
                kinds += ["sum of gradients of input", "gradient of weight, FP32", "gradient of weight, summed"]
            yield from ((kind, m, k, n) for kind in kinds)
            if m in (4096, 16384) and k * n >= 4e6:
                yield from ((kind, m, k, n, FP8) for kind in ("output, scales of rows", "output, one scale"))
    for k, n in HEADS:
        for m in ROWS_OF_HEADS:
            for kind in ("output", "gradient of input", "gradient of weight, FP32", "gradient of weight, summed"):
                yield kind, m, k, n
    for k, rank in ADAPTERS:
        for kind in ("output", "gradient of input", "gradient of weight", "gradient of weight, FP32"):
            yield kind, 4096, k, rank
        for kind in ("sum of gradients of input", "gradient of weight", "gradient of weight, FP32"):
            yield kind, 4096, rank, k
        yield "output", 4096, k, rank, FP32
    yield "output", 4096, 4096, 4096, FP32


def allocated_by(call):
    """What a call asks of the caching allocator, in the order of asking."""
    torch.cuda.memory._record_memory_history(max_entries=1000, context=None)
    call()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    return [[event["action"], event["size"]] for event in events if event["action"] in ("alloc", "free_requested")]


def attention(library, shape):
    rows, heads, key_heads, length, size = shape
    aten = torch.ops.aten

    def make():
        # As a layer has them: heads lie within a token.
        q, k, v = (drawn(rows, length, h, size).transpose(1, 2) for h in (heads, key_heads, key_heads))
        for tensor in (q, k, v):
            tensor.requires_grad_()
        return q, k, v, drawn(rows, length, heads, size).transpose(1, 2)

    def forward(q, k, v, _):
        if library == "flash":
            return aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True)[0]
        return aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, True, False)[0]

    def backward(q, k, v, grad, out):
        torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)

    prepared_ms = first_of_a_shape_ms(make, forward, backward)
    sets = sets_of(make)
    with_results = [(*inputs, forward(*inputs)) for inputs in sets]
    with torch.no_grad():
        forward_ms, forward_allocations = time_ms(forward, sets), allocated_by(lambda: forward(*sets[0]))
    backward_ms = time_ms(backward, with_results)
    pairs = rows * heads * length * (length + 1) / 2
    return {
        "what": f"attention, {library}, {rows} × {length:,}, {heads} heads of {size}, {key_heads} of keys",
        "library": library,
        "shape": list(shape),
        "prepared_ms": prepared_ms,
        "kernels": kernels_of(forward, backward, with_results[0]),
        "forward_ms": forward_ms,
        "backward_ms": backward_ms,
        "forward_TFLOP/s": 4 * pairs * size / forward_ms / 1e9,
        "backward_TFLOP/s": 10 * pairs * size / backward_ms / 1e9,
        "forward_allocations": forward_allocations,
        "backward_allocations": allocated_by(lambda: backward(*with_results[0])),
        "difference_from_fp32": difference(sets[0], with_results[0][-1]),
    }


def first_of_a_shape_ms(make, forward, backward):
    """What the first passes of a shape take the host, beyond what the next do."""
    seconds = []
    for _ in range(2):
        inputs = make()
        torch.cuda.synchronize()
        start = time.perf_counter()
        backward(*inputs, forward(*inputs))
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return 1e3 * (seconds[0] - seconds[1])


def kernels_of(forward, backward, inputs):
    """How many kernels and fills each pass gives the GPU."""
    counts = []
    for call in (lambda: forward(*inputs[:-1]), lambda: backward(*inputs)):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            call()
            torch.cuda.synchronize()
        counts.append(sum(event.device_type == torch.autograd.DeviceType.CUDA for event in profile.events()))
    return counts


@torch.no_grad()
def difference(inputs, out):
    q, k, v = (tensor.float() for tensor in inputs[:3])
    repeats = q.shape[1] // k.shape[1]
    k, v = (tensor.repeat_interleave(repeats, 1) for tensor in (k, v))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        wide = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return ((out.float() - wide).norm() / wide.norm()).item()


def streaming(what, make, call, passes):
    """passes: bytes read and written as a multiple of the first input's."""
    sets = sets_of(make)
    milliseconds = time_ms(call, sets)
    moved = passes * sets[0][0].nbytes
    return {"what": what, "bytes": moved, "ms": milliseconds, "GB/s": moved / milliseconds / 1e6}


def streams():
    """Arguments of `streaming`."""
    aten = torch.ops.aten

    def drawers(count):
        one, two = lambda: (drawn(count),), lambda: (drawn(count), drawn(count))
        return one, two, lambda: (drawn(count, dtype=FP32), drawn(count, dtype=FP32))

    for count in SIZES:
        one, two, wide = drawers(count)
        yield f"add_, BF16, {count:,}", two, lambda x, y: x.add_(y), 3
        yield f"silu, BF16, {count:,}", one, aten.silu, 2
        yield f"add_, FP32, {count:,}", wide, lambda x, y: x.add_(y), 3
        yield f"to FP32 from BF16, {count:,}", one, lambda x: x.to(FP32), 3
        yield f"fill, BF16, {count:,}", one, lambda x: x.zero_(), 1

    def norm(x, _):
        return aten._fused_rms_norm(x, [x.shape[1]], torch.ones(x.shape[1], device="cuda", dtype=BF16), 1e-5)

    def norm_backward(x, dy):
        weight = torch.ones(x.shape[1], device="cuda", dtype=BF16)
        statistics = torch.ones(x.shape[0], 1, device="cuda")
        return aten._fused_rms_norm_backward(dy, x, [x.shape[1]], statistics, weight, [True, True])

    def rows(tokens, width):
        return lambda: (drawn(tokens, width), drawn(tokens, width))

    for tokens, width in ((2048, 576), (8192, 2048), (4096, 4096), (2048, 4096), (16384, 4096)):
        yield f"_fused_rms_norm and fills, {tokens:,} × {width:,}", rows(tokens, width), norm, 2
        yield f"_fused_rms_norm_backward and fills, {tokens:,} × {width:,}", rows(tokens, width), norm_backward, 3
    casts = [torch.empty(8, 4096, device="cuda", dtype=BF16) for _ in range(448)]
    yield (
        "_foreach_copy_, FP32 to BF16, 448 of 8 × 4,096",
        lambda: tuple(drawn(8, 4096, dtype=FP32) for _ in range(448)),
        lambda *adapters: torch._foreach_copy_(casts, list(adapters)),
        448 * 1.5,
    )
    yield (
        "embedding_dense_backward, 8,192 of 128,256 × 2,048",
        lambda: (drawn(8192, 2048), torch.randint(0, 128256, (8192,), device="cuda")),
        lambda dy, ids: aten.embedding_dense_backward(dy, ids, 128256, -1, False),
        1,
    )


def links():
    for megabytes in (1, 16, 256):
        host = torch.empty(megabytes << 20, dtype=torch.uint8, pin_memory=True)
        device = torch.empty(megabytes << 20, dtype=torch.uint8, device="cuda")
        for what, out, source in (("to the device", device, host), ("to the host", host, device)):
            ms = time_ms(lambda o, s: o.copy_(s, non_blocking=True), [(out, source)])
            yield {
                "what": f"{megabytes} MiB, pinned, {what}",
                "ms": ms,
                "bytes": source.nbytes,
                "GB/s": source.nbytes / ms / 1e6,
            }


def launches():
    """Of tiny kernels: one after the other from the host, and out of a graph."""
    x = torch.zeros(16, device="cuda")
    from_host = time_ms(lambda: x.add_(1), [()] * 1000)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(1000):
            x.add_(1)
    return {"from the host, us": 1e3 * from_host, "from a graph, us": time_ms(graph.replay, [()])}


def found(measure, *arguments):
    try:
        return measure(*arguments)
    except Exception as error:  # what this LibTorch or GPU lacks is told in the place of its figures
        return {"error": f"{measure.__name__}{arguments}: {type(error).__name__}: {error}"[:300]}


def state():
    asked = "clocks.sm,clocks.mem,power.draw,temperature.gpu"
    told = subprocess.run(
        ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"], capture_output=True, text=True, check=False
    )
    return told.stdout.strip()


def main():
    torch.manual_seed(3)
    drawn(8192, 8192) @ drawn(8192, 8192)
    states = [state()]
    tables = {"launches": found(launches)}
    tables["attention"] = [found(attention, library, shape) for shape in ATTENTION for library in ("flash", "cudnn")]
    tables["products"] = [found(product, *arguments) for arguments in products()]
    states.append(state())
    tables["streams"] = [found(streaming, *arguments) for arguments in streams()]
    tables["links"] = list(links())
    states.append(state())
    print(json.dumps({"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "state": states, **tables}))


if __name__ == "__main__":
    main()
