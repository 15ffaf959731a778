"""Steps as a run has them: dozens, with a line of the log for ten, so that nothing waits for the GPU in between."""

import dataclasses
import json
import shutil

from gpu.features import CUDNN, FP8, FULL_8BIT, GRAPHS, LORA_BF16, OWN, Feature, write_config
from gpu.session import ROOT, Unit, read_steps, slug

LOGGED = 10  # steps
PARTS = ["forward", "backward", "optimizer_step"]
FAST = [OWN, CUDNN, GRAPHS]
LORA = [*LORA_BF16, "bf16=true", *FAST]
FULL = ["dtype=bfloat16", *FAST]
AT_ONCE_8BIT = [*(setting for setting in FULL_8BIT if "accumulation" not in setting), CUDNN]
ACCUMULATED = [*AT_ONCE_8BIT, "gradient_accumulation_steps=2"]


@dataclasses.dataclass(frozen=True)
class Row:
    title: str
    model: str  # of configs/models
    batch: int
    settings: list
    length: int = 2048
    steps: int = 30
    seconds: float = 12


ROWS = [
    Row("135M, full, launched one by one", "smollm2-135m", 4, ["dtype=bfloat16", OWN, CUDNN], 512, 60),
    Row("135M, full", "smollm2-135m", 4, FULL, 512, 60),
    Row("135M, full, all logits at once", "smollm2-135m", 4, [*FULL, "loss_chunk_size=0"], 512, 60),
    Row("135M, LoRA", "smollm2-135m", 4, LORA, 512, 60),
    Row("1B, full", "llama-3.2-1b", 4, FULL),
    Row("1B, full, logits of 2,048 tokens", "llama-3.2-1b", 4, [*FULL, "loss_chunk_size=2048"]),
    Row("1B, full, all logits at once", "llama-3.2-1b", 4, [*FULL, "loss_chunk_size=0"]),
    Row("1B, full, all logits at once, 8 rows", "llama-3.2-1b", 8, [*FULL, "loss_chunk_size=0"]),
    Row("1B, full, all logits at once, 16 rows", "llama-3.2-1b", 16, [*FULL, "loss_chunk_size=0"], steps=20),
    Row("1B, full, logits of 8,192 tokens, 16 rows", "llama-3.2-1b", 16, [*FULL, "loss_chunk_size=8192"], steps=20),
    Row("8B, LoRA", "llama-3.1-8b", 2, LORA),
    Row("8B, LoRA, length 4,096", "llama-3.1-8b", 2, LORA, 4096, 20),
    Row("8B, LoRA, FP8 products", "llama-3.1-8b", 2, [*LORA, *FP8[1:]]),
    Row("8B, LoRA, NF4 base", "llama-3.1-8b", 2, [*LORA, "load_in_4bit=true"]),
    Row("8B, LoRA, INT8 base", "llama-3.1-8b", 2, [*LORA, "load_in_8bit=true"]),
    Row("8B, full, 8-bit states, 8 rows a step", "llama-3.1-8b", 4, ACCUMULATED, steps=20, seconds=40),
    Row(
        "8B, full, 8-bit states, 8 rows a step, FP8 products",
        "llama-3.1-8b",
        4,
        [*ACCUMULATED, "fp8=true"],
        steps=20,
        seconds=40,
    ),
    Row("Qwen2.5 7B, full, 8-bit states, 8 rows a step", "qwen2.5-7b", 4, ACCUMULATED, steps=20, seconds=40),
    Row(
        "8B, full, 8-bit states, checkpoints, 1 row",
        "llama-3.1-8b",
        1,
        [*AT_ONCE_8BIT, "gradient_checkpointing=true", GRAPHS],
        seconds=20,
    ),
    Row(
        "8B, full, 8-bit states in the host's memory, updates in backward, 1 row",
        "llama-3.1-8b",
        1,
        [*AT_ONCE_8BIT, "gradient_checkpointing=true", "optimizer_in_backward=true", "offload_optimizer=true"],
        seconds=40,
    ),
    Row(
        "8B, LoRA, NF4 layers in the host's memory",
        "llama-3.1-8b",
        2,
        [*LORA_BF16, "bf16=true", OWN, CUDNN, "load_in_4bit=true", "offload_weights=true"],
        seconds=20,
    ),
]


def units(session):
    return [Unit(f"steps/{slug(row.title)}", row.title, row.seconds, lambda row=row: run(row, session)) for row in ROWS]


def model_flops(row, rows):
    """Of a step, without what checkpoints do again: products with weights, 2 FLOPs a number and token and pass, and
    causal attention's; a frozen matrix has no gradient."""
    config = json.loads((ROOT / f"configs/models/{row.model}/config.json").read_text())
    width, layers, heads = (config[name] for name in ("hidden_size", "num_hidden_layers", "num_attention_heads"))
    head = config.get("head_dim") or width // heads
    both = (heads + config["num_key_value_heads"]) * head
    matrices = layers * width * (2 * both + 3 * config["intermediate_size"]) + width * config["vocab_size"]
    tokens = rows * row.length
    passes = 2 if "method=lora" in row.settings else 3
    return tokens * (2 * passes * matrices + 3 * 4 * layers * heads * head * (row.length + 1) / 2)


def run(row, session):
    folder = session.work / "steps-run"
    shutil.rmtree(folder, ignore_errors=True)
    feature = Feature("", row.title, f"configs/models/{row.model}", row.length, row.batch, tuple(row.settings))
    said = session.train(write_config(feature, session, folder, row.steps, logging_steps=LOGGED), *row.settings)
    memory = json.loads((folder / "memory.json").read_text())
    accumulated = next((int(s.split("=")[1]) for s in row.settings if s.startswith("gradient_accumulation")), 1)
    rows = row.batch * accumulated
    steps = read_steps(folder)
    times = memory["time"] or {"steps": 1}

    def mean(key):
        return times[key] / times["steps"] if times.get(key) else None

    found = {
        "shape": f"{rows} × {row.length:,}",
        "tokens": rows * row.length,
        "flops": model_flops(row, rows),
        **{name: memory[name] for name in ("peak", "reserved")},
        "expected_seconds": mean("expected_seconds"),
        "parts": {part: {of: mean(f"{part}_{of}_seconds") for of in ("expected", "measured")} for part in PARTS},
        "losses": [step["loss"] for step in steps],
        "passed": "equal to the byte" in said,
        "wrong": [line for line in said.splitlines() if "differ" in line.lower()][-4:],
    }
    # The first of them has the steps in which libraries load and layers are recorded.
    return found if session.phantom else {**found, "step_seconds": [step["step_seconds"] for step in steps[1:]]}
