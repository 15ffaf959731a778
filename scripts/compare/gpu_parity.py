"""The same computation on the GPU and on the CPU, and by fathom and by transformers on the GPU."""

import array
import json
import pathlib
import struct
import subprocess

from compare import commands, gpu_cases, gpu_matrix, measure
from compare.gpu_matrix import CommandFailed, call
from compare.rows import METHODS, PRECISIONS, Row

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
IDS = "1,5,9,2,7,7,3,11,30,4"
LOGIT_TOLERANCE = 1e-4  # of the largest logit
LOSS_TOLERANCE = 1e-4  # relative; sums in another order, a few steps long
PEER_BATCH = 8


def read_float32(file):
    """All numbers of a safetensors file that holds FP32 tensors only, in the order of the file."""
    data = pathlib.Path(file).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    types = {entry["dtype"] for name, entry in json.loads(data[8 : 8 + length]).items() if name != "__metadata__"}
    if types != {"F32"}:
        raise CommandFailed(f"{file} holds {', '.join(sorted(types))}, not F32")
    numbers = array.array("f")
    numbers.frombytes(data[8 + length :])
    return numbers


def logits_difference(check):
    """The largest difference of a logit between the devices, as a share of the largest."""
    logits = {}
    for device in ("cpu", "cuda"):
        out = check.work / f"logits-{device}.safetensors"
        call(
            [
                check.fathom,
                "logits",
                ROOT / "data/model",
                "--ids",
                IDS,
                "--out",
                out,
                f"device={device}",
                "dtype=float32",
            ],
            check.logs / f"logits-{device}.log",
            check.environment,
        )
        logits[device] = read_float32(out)
    if len(logits["cpu"]) != len(logits["cuda"]):
        raise CommandFailed("the devices gave different numbers of logits")
    return max(abs(a - b) for a, b in zip(logits["cpu"], logits["cuda"], strict=True)) / max(map(abs, logits["cpu"]))


def loss_difference(check, method, cuda_kernels=False):
    """The largest relative difference of a loss of a short FP32 training from the same seed.

    cuda_kernels: fathom's own take the place of LibTorch's on the GPU.

    The weights are drawn by one device's generator, so they are drawn once, on the CPU, and trained from a folder.
    """
    case = gpu_cases.Case("odd", Row(method, "fp32"))
    base = check.work / "parity-base"
    if not base.exists():
        config = gpu_cases.write_config(gpu_cases.Case("odd", Row("full", "fp32")), check.work, base, "cpu")
        call([check.fathom, "train", config, "max_steps=1"], check.logs / "parity-base.log", check.environment)
    losses = {}
    for device in ("cpu", "cuda"):
        own = cuda_kernels and device == "cuda"
        run = check.work / f"parity-{method}-{device}{'-own' if own else ''}"
        config = gpu_cases.write_config(case, check.work, run, device)
        settings = [f"model_name_or_path={base}", "random_init=false", f"cuda_kernels={str(own).lower()}"]
        if not run.exists():
            call([check.fathom, "train", config, *settings], check.logs / f"{run.name}.log", check.environment)
        losses[device] = [step["loss"] for step in gpu_matrix.read_steps(run)]
    return max(abs(a - b) / abs(a) for a, b in zip(losses["cpu"], losses["cuda"], strict=True))


def against_cpu(check):
    """Differences between the GPU and the CPU, each with what is allowed."""
    results = []
    for what, allowed, measure_it in (
        ("logits of data/model, share of the largest", LOGIT_TOLERANCE, lambda: logits_difference(check)),
        ("losses, full, relative", LOSS_TOLERANCE, lambda: loss_difference(check, "full")),
        ("losses, LoRA, relative", LOSS_TOLERANCE, lambda: loss_difference(check, "lora")),
        ("losses by fathom's CUDA kernels, full", LOSS_TOLERANCE, lambda: loss_difference(check, "full", True)),
        ("losses by fathom's CUDA kernels, LoRA", LOSS_TOLERANCE, lambda: loss_difference(check, "lora", True)),
    ):
        entry = {"what": what, "allowed": allowed, "passed": False}
        try:
            entry["difference"] = measure_it()
            entry["passed"] = entry["difference"] <= allowed
        except (CommandFailed, OSError, ValueError, KeyError) as error:
            entry["error"] = str(error)
        results.append(entry)
    return results


def against_peer(check):
    """Speed and memory of both sides on the GPU, on the 125M shape with the peer's random weights."""
    probe = subprocess.run(
        [check.peer_python, "-c", "import transformers, peft, torch; print(torch.cuda.is_available())"],
        capture_output=True,
        text=True,
    )
    if probe.stdout.strip() != "True":
        return {"error": f"{check.peer_python} has no transformers and PEFT with a GPU: not compared"}
    model, ids = check.work / "peer-model", check.work / "peer-ids.jsonl"
    maker = [check.peer_python, ROOT / "scripts/compare/make_model.py", "--model", model, "--ids", ids, "--lines", "16"]
    subprocess.run([str(part) for part in maker], check=True, capture_output=True)
    rows = [peer_row(check, Row(method, precision), model, ids) for method in METHODS for precision in PRECISIONS]
    versions = next((row.pop("versions") for row in rows if "versions" in row), {"transformers": "?"})
    return {"batch": PEER_BATCH, "rows": rows, "versions": versions}


def peer_row(check, row, model, ids, steps=12):
    result = {"title": row.title}
    try:
        run, config = check.work / "peer-run", check.work / "peer.yaml"
        subprocess.run(["rm", "-rf", run], check=True)
        settings = {"device": "cuda", "per_device_train_batch_size": PEER_BATCH}
        commands.write_fathom_config(config, row, model, ids, run, 512, steps, **settings)
        call([check.fathom, "train", config], check.logs / f"peer-{row.name}-fathom.log", check.environment)
        memory = json.loads((run / "memory.json").read_text())
        metrics = check.work / "peer-metrics.jsonl"
        options = ["--device", "cuda", "--batch", PEER_BATCH]
        command = commands.peer_command(check.peer_python, row, model, ids, steps, metrics, *options)
        theirs = measure.run(command, metrics, check.logs / f"peer-{row.name}-transformers.log")
        tokens = PEER_BATCH * 512
        result.update(
            fathom_tokens_per_second=gpu_matrix.tokens_per_second(gpu_matrix.read_steps(run), 4),
            peer_tokens_per_second=tokens / theirs.median_step_seconds(4),
            fathom_allocated=gpu_matrix.figure(memory, "allocated", "measured"),
            fathom_reserved=gpu_matrix.figure(memory, "reserved", "measured"),
            peer_allocated=theirs.summary["allocated_bytes"],
            peer_reserved=theirs.summary["reserved_bytes"],
            versions=theirs.summary["versions"],
        )
    except (CommandFailed, measure.RunFailed, KeyError, OSError, ValueError) as error:
        result["error"] = str(error)
    return result
