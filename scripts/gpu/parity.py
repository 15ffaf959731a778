"""The same computation on the GPU and on the CPU in FP32, by LibTorch's operators and by fathom's own kernels.

Both start from the same bytes: weights, and where there is one the adapter, are drawn and trained for a step on the CPU and
loaded by each, so that neither a generator nor B = 0 hides a difference. AdamW does not see the size of a gradient; SGD
without clipping does.
"""

import array
import dataclasses
import json
import pathlib
import random
import shutil
import statistics
import struct

from compare.rows import Row
from gpu import cases
from gpu.session import ROOT, Unit, UnitFailed, read_steps

IDS = "1,5,9,2,7,7,3,11,30,4"
LOGIT_TOLERANCE = 1e-4  # of the largest logit
LOSS_TOLERANCE = 1e-4  # relative; sums in another order, a few steps long
BF16_TOLERANCE = 2e-3  # the same, where attention rounds its results to BF16
# Stable here; a gradient 1 % too large moves a loss by 1.8e-4 of it.
SGD = ("optim=sgd", "max_grad_norm=0", "learning_rate=0.02")


@dataclasses.dataclass(frozen=True)
class Training:
    title: str
    method: str
    settings: tuple = ()
    own_kernels: bool = False


TRAININGS = [
    Training("losses, full", "full"),
    Training("losses, LoRA", "lora"),
    Training("losses, full, SGD", "full", SGD),
    Training("losses, LoRA, SGD", "lora", SGD),
    Training("losses by fathom's kernels, full", "full", own_kernels=True),
    Training("losses by fathom's kernels, LoRA", "lora", own_kernels=True),
    Training("losses by fathom's kernels, LoRA, SGD", "lora", SGD, own_kernels=True),
]

# One small model of each architecture, of those that the CPU is compared with transformers by.
GOLDEN = ROOT / "tests/model/golden"
FAMILIES = """cohere2 cwm gemma2 gemma3 gemma4 glm4 gpt2 gpt_oss granite granite_moe llama_stretched ministral3_windowed
mistral_windowed mixtral olmo2 olmo3 olmoe phi3_long qwen2 qwen3 qwen3_moe qwen2_moe qwen3_next glm4_moe deepseek_v3
glm4_moe_lite smollm3 t5_first t5_flan""".split()


def units(session):
    kernels = Unit("parity/kernels", "fathom's kernels against PyTorch in FP64", 15, lambda: kernels_alone(session))
    logits = Unit("parity/logits", "logits of data/model, share of the largest", 10, lambda: logits_difference(session))
    trainings = [training_unit(training, session) for training in TRAININGS]
    attention = Unit(
        "parity/cudnn", "losses by cuDNN's attention, BF16, relative", 10, lambda: attention_difference(session)
    )
    elsewhere = [host_unit(key, session) for key in ("optimizer_in_backward", "offload_optimizer", "offload_weights")]
    graphs = [graphs_unit(method, session) for method in ("full", "lora")]
    families = [family_unit(name, session) for name in FAMILIES]
    if session.phantom:  # which computes nothing to compare
        return [*trainings, *families]
    fp8 = Unit(
        "parity/fp8-loss",
        "loss that the shipped model ends with, FP8 products, relative",
        60,
        lambda: fp8_loss(session),
    )
    return [kernels, logits, *trainings, attention, *graphs, *elsewhere, fp8, *families]


def training_unit(training, session):
    key = "parity/" + "-".join(
        [training.method, *(["sgd"] if training.settings else []), *(["own"] if training.own_kernels else [])]
    )
    return Unit(key, training.title + ", relative", 15, lambda: loss_difference(training, session))


def graphs_unit(method, session):
    title = f"losses by CUDA graphs, {method}, relative"
    return Unit(f"parity/graphs-{method}", title, 10, lambda: graphs_difference(method, session))


def host_unit(key, session):
    return Unit(f"parity/{key}", f"losses by {key}, relative", 10, lambda: host_difference(key, session))


def family_unit(name, session):
    return Unit(f"parity/family-{name}", f"losses of {name}, relative", 6, lambda: family_difference(name, session))


def within(difference, allowed, session):
    """The verdict; a phantom, whose values are zeros, gets none."""
    found = {"difference": difference, "allowed": allowed}
    return found if session.phantom else {**found, "passed": difference <= allowed, "wrong": []}


def kernels_alone(session):
    """Each kernel by itself, over shapes and types, in a Python that has torch."""
    script = pathlib.Path(__file__).with_name("kernels_against_torch.py")
    library = session.fathom.parent / "lib/libfathom_cuda_kernels.so"
    if not library.exists():
        raise UnitFailed(f"{library} was not built: nvcc 13 was not found")
    document = json.loads(session.call([session.peer_python, script, library], 120))
    wrong = [
        f"{row['what']}: {row['difference']:.1e}" for row in document["rows"] if not row["difference"] <= row["allowed"]
    ]
    return {"passed": not wrong, "wrong": wrong, **document}


def read_float32(file):
    """All numbers of a safetensors file that holds FP32 tensors only, in the order of the file."""
    data = pathlib.Path(file).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    types = {entry["dtype"] for name, entry in json.loads(data[8 : 8 + length]).items() if name != "__metadata__"}
    if types != {"F32"}:
        raise UnitFailed(f"{file} holds {', '.join(sorted(types))}, not F32")
    numbers = array.array("f")
    numbers.frombytes(data[8 + length :])
    return numbers


def logits_difference(session):
    """The largest difference of a logit between the devices, as a share of the largest."""
    logits = {}
    for device in ("cpu", "cuda"):
        out = session.work / f"logits-{device}.safetensors"
        asked = ["--ids", IDS, "--out", out, f"device={device}", "dtype=float32"]
        session.call([session.fathom, "logits", ROOT / "data/model", *asked], 120)
        logits[device] = read_float32(out)
    if len(logits["cpu"]) != len(logits["cuda"]):
        raise UnitFailed("the devices gave different numbers of logits")
    largest = max(map(abs, logits["cpu"]))
    difference = max(abs(a - b) for a, b in zip(logits["cpu"], logits["cuda"], strict=True)) / largest
    return within(difference, LOGIT_TOLERANCE, session)


def trained_for_a_step(method, session, *settings):
    """A folder of weights, or of an adapter, from the CPU."""
    folder = session.work / f"parity-{method}-start"
    if not folder.exists():
        config = cases.write_config(cases.Case("odd", Row(method, "fp32")), session.work, folder, "cpu")
        session.train(config, "max_steps=1", "learning_rate=0.01", *settings, options=[])
    return folder


def loss_difference(training, session):
    """The largest relative difference of a loss of a short training."""
    base = trained_for_a_step("full", session)
    settings = [f"model_name_or_path={base}", "random_init=false"]
    if training.method == "lora":
        adapter = trained_for_a_step("lora", session, *settings)
        settings.append(f"adapter_name_or_path={adapter}")
    losses = {}
    for device in ("cpu", "cuda"):
        own = f"cuda_kernels={'true' if training.own_kernels and device == 'cuda' else 'false'}"
        run = session.work / f"parity-{device}"
        config = cases.write_config(cases.Case("odd", Row(training.method, "fp32")), session.work, run, device)
        options = [] if device == "cpu" else None
        session.call(["rm", "-rf", run], 20)
        session.train(config, *settings, *training.settings, own, options=options)
        losses[device] = [step["loss"] for step in read_steps(run)]
    moved = abs(losses["cpu"][0] - losses["cpu"][-1]) / losses["cpu"][0]
    difference = max(abs(a - b) / abs(a) for a, b in zip(losses["cpu"], losses["cuda"], strict=True))
    return {**within(difference, LOSS_TOLERANCE, session), "moved": moved, "losses": losses}


def difference_by(setting, values, method, allowed, session, *settings):
    """The largest relative difference of a loss by the second value of a setting, both on the GPU in BF16."""
    losses = {}
    for value in values:
        run = session.work / f"parity-{setting}-{method}-{value}"
        config = cases.write_config(cases.Case("125m", Row(method, "autocast"), data="ragged"), session.work, run)
        session.train(config, "learning_rate=1e-3", f"{setting}={value}", *settings)
        losses[value] = [step["loss"] for step in read_steps(run)]
    pairs = list(zip(*losses.values(), strict=True))
    found = within(max(abs(a - b) / a for a, b in pairs), allowed, session)
    return {**found, "moved": abs(pairs[0][0] - pairs[-1][0]) / pairs[0][0], "losses": losses}


def attention_difference(session):
    return difference_by("attn_implementation", ("flash", "cudnn"), "full", BF16_TOLERANCE, session)


def graphs_difference(method, session):
    """None is allowed: the same kernels on the same numbers, without flash attention, whose gradients add up in any order.
    One shape, so that all but two steps are replayed; adapters draw what they leave out."""
    repeats = ["pad_to_multiple_of=512", "max_steps=8", "cuda_kernels=true", "attn_implementation=math"]
    repeats += ["lora_dropout=0.1"] if method == "lora" else []
    return difference_by("cuda_graphs", ("false", "true"), method, 0, session, *repeats)


def host_difference(setting, session):
    """None is allowed: the same kernels on the same numbers, wherever these lie and whenever they are updated. Adapters of
    upper layers alone leave layers unread in a backward pass; two batches a step follow each other without a wait."""
    asked = ["max_steps=8", "cuda_kernels=true", "attn_implementation=math", "max_grad_norm=0"]
    if setting != "offload_weights":
        return difference_by(setting, ("false", "true"), "full", 0, session, *asked)
    asked += ["gradient_accumulation_steps=2", "target_modules=[layers.9.mlp.up_proj, layers.10.mlp.up_proj]"]
    return difference_by(setting, ("false", "true"), "lora", 0, session, *asked)


def fp8_loss(session):
    """The shipped model learns whole lines of questions and answers, a fifth of them held out, with adapters on every linear
    layer; each seed's loss at the end against the same seed's with products in BF16. Allowed is how far those lie apart."""
    lesson = ["completion_only_loss=false", "validation_file=", "validation_split=0.2", "num_train_epochs=10"]
    lesson += ["save_strategy=no", "bf16=true", "cuda_kernels=true", "cuda_graphs=true", "pad_to_multiple_of=64"]
    products = {"bf16": ["dtype=bfloat16"], "fp8": ["load_in_fp8=true", "fp8=true"]}
    losses = {name: [] for name in products}
    for seed in (42, 43, 44):
        for name, settings in products.items():
            run = session.work / "fp8-run"
            shutil.rmtree(run, ignore_errors=True)
            session.train(ROOT / "configs/lora.yaml", f"output_dir={run}", f"seed={seed}", *lesson, *settings)
            lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            losses[name].append([line["eval_loss"] for line in lines if "eval_loss" in line][-1])
    difference = abs(statistics.mean(losses["fp8"]) / statistics.mean(losses["bf16"]) - 1)
    spread = (max(losses["bf16"]) - min(losses["bf16"])) / statistics.mean(losses["bf16"])
    return {**within(difference, spread, session), "losses": losses}


def family_difference(name, session):
    """The largest relative difference of a loss on the GPU, by LibTorch's operators or by fathom's, from the CPU's."""
    numbers = random.Random(5)
    vocabulary = json.loads((GOLDEN / name / "config.json").read_text())["vocab_size"]
    ids = session.work / "parity-family.jsonl"
    with ids.open("w") as out:
        for length in (9, 6, 10, 4, 8, 10):
            source, target = ([numbers.randrange(3, vocabulary) for _ in range(n)] for n in (length, length))
            out.write(json.dumps({"input_ids": source, "labels": target if name.startswith("t5") else source}) + "\n")
    losses = {}
    for device, own in (("cpu", "false"), ("cuda", "false"), ("cuda", "true")):
        run = session.work / "parity-family"
        shutil.rmtree(run, ignore_errors=True)
        config = session.work / "parity-family.yaml"
        config.write_text(
            f"model_name_or_path: {GOLDEN / name}\ntrain_file: {ids}\noutput_dir: {run}\ndtype: float32\n"
            "per_device_train_batch_size: 2\nmax_steps: 5\nlogging_steps: 1\nsave_strategy: 'no'\n"
        )
        asked = [*SGD, f"device={device}", f"cuda_kernels={own}"]
        session.train(config, *asked, options=[] if device == "cpu" else None)
        losses[f"{device}, own kernels" if own == "true" else device] = [step["loss"] for step in read_steps(run)]
    cpu = losses.pop("cpu")
    difference = max(abs(a - b) / abs(a) for others in losses.values() for a, b in zip(cpu, others, strict=True))
    return {**within(difference, LOSS_TOLERANCE, session), "moved": abs(cpu[0] - cpu[-1]) / cpu[0], "losses": losses}
