"""Where a step's time goes on the GPU: kernels by name and kind, gaps between them, launches.

From `fathom train --profile`, which is LibTorch's profiler without operators of the host, over three steps.
"""

import collections
import json
import re
import shutil

from gpu.features import LORA_BF16, OWN, SMOLLM, Feature, large, write_config
from gpu.session import Unit, read_steps, slug

STEPS = 3  # that are profiled
LONGEST = 25  # kernels that are listed
AT_WORK = ("kernel", "gpu_memcpy", "gpu_memset")

# The first that matches names the kind.
KINDS = {
    "products": r"gemm|cutlass|xmma|nvjet|splitK|cublas|gemv",
    "attention": r"flash|fmha|attention|sdpa|softmax_warp",
    "normalisation": r"layer_?norm|rms_?norm|RMSNorm|RowwiseMoments|GammaBeta",
    "optimizer": r"multi_tensor|fused_?adam|FusedAdam|foreach",
    "own kernels": r"fathom",
    "sorting and indexing": r"sort|Radix|index|gather|scatter|embedding|scan",
    "sums": r"reduce|Reduce|sum_functor",
    "elementwise": r"elementwise|vectorized|unrolled|CatArray|copy",
}


def rows():
    wanted = [
        "llama-3.2-1b, pure BF16, 4 × 2,048",
        "llama-3.1-8b, LoRA, BF16 base, 2 × 2,048",
        "llama-3.1-8b, LoRA, BF16 base, autocast",
        "llama-3.1-8b, LoRA, NF4 base",
        "llama-3.1-8b, LoRA, NF4 base, own kernels",
        "llama-3.1-8b, LoRA, autocast, BF16 base, own kernels",
        "llama-3.1-8b, LoRA, autocast, NF4 base, own kernels",
        "llama-3.1-8b, LoRA, autocast, INT8 base, own kernels",
        "llama-3.1-8b, full, stochastic, adamw_8bit, checkpointing, 1 × 2,048",
        "llama-3.1-8b, full, stochastic, adamw_8bit, checkpointing, own kernels, 1 × 2,048",
        "llama-3.2-1b, pure BF16, own kernels",
        "llama-3.1-8b, full, stochastic, adamw_8bit, own kernels, 8 × 2,048",
        "llama-3.1-8b, LoRA, autocast, own kernels, cuDNN's attention",
        "llama-3.2-1b, pure BF16, own kernels, cuDNN's attention",
    ]
    for title in wanted:
        yield large(title, "")
    for title, settings in (
        ("pure BF16", ["dtype=bfloat16"]),
        ("LoRA, BF16", LORA_BF16),
        ("own kernels", ["dtype=bfloat16", OWN]),
    ):
        yield Feature("", f"smollm2-135m, {title}, 4 × 512", SMOLLM, 512, 4, tuple(settings), seconds=15)


def units(session):
    return [
        Unit(f"profile/{slug(row.title)}", row.title, row.seconds, lambda row=row: run(row, session)) for row in rows()
    ]


def run(row, session):
    folder, file = session.work / "profile-run", session.work / "profile.json"
    shutil.rmtree(folder, ignore_errors=True)
    config = write_config(row, session, folder, steps=9)
    session.train(config, *row.settings, "--profile", file, limit_seconds=300)
    found = summary(json.loads(file.read_text())["traceEvents"])
    file.unlink()
    steps = read_steps(folder)[2 + STEPS :]  # those without the profiler
    seconds = None if session.phantom else sum(step["step_seconds"] for step in steps) / len(steps)
    return {"step_seconds": seconds, "tokens": row.batch * row.length, **found}


def kind_of(event):
    if event["cat"] != "kernel":
        return "copies and fills"
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, event["name"])), "other")


def summary(events):
    """Milliseconds and counts of one step, from the events of several."""
    events = [event for event in events if event.get("ph") == "X"]
    at_work = sorted((event for event in events if event.get("cat") in AT_WORK), key=lambda event: event["ts"])
    launches = sum("Launch" in event["name"] for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver"))
    by_kind, by_name = collections.Counter(), collections.Counter()
    kinds, names = collections.Counter(), collections.Counter()
    busy, end = 0.0, float("-inf")
    for event in at_work:
        for sums, counts, key in ((by_kind, kinds, kind_of(event)), (by_name, names, event["name"])):
            sums[key] += event["dur"]
            counts[key] += 1
        busy += max(0.0, event["ts"] + event["dur"] - max(end, event["ts"]))
        end = max(end, event["ts"] + event["dur"])
    span = end - at_work[0]["ts"] if at_work else 0.0

    def table(sums, counts):
        return [
            {"name": n[:160], "ms": t / 1e3 / STEPS, "count": counts[n] / STEPS} for n, t in sums.most_common(LONGEST)
        ]

    return {
        "span_ms": span / 1e3 / STEPS,
        "busy_ms": busy / 1e3 / STEPS,
        "launches": launches / STEPS,
        "events": len(at_work) / STEPS,
        "host_operators": sum(event.get("cat") == "cpu_op" for event in events) / STEPS,
        "kinds": table(by_kind, kinds),
        "kernels": table(by_name, names),
    }
