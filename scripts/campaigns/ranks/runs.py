"""Runs of several processes that the scripts about ranks share: strategies, methods and features, their data, and one run."""

import shutil
import subprocess

from campaign import PROGRAM, ROOT

BIT4 = "method=lora dtype=bfloat16 bf16=true target_modules=all-linear load_in_4bit=true"
STRATEGIES = [
    ("DDP", "strategy=ddp"),
    ("FSDP", "strategy=fsdp"),
    ("FSDP, not resharded", "strategy=fsdp reshard_after_forward=false"),
    ("HSDP", "strategy=fsdp dp_replicate_size=2"),
]
METHODS = [
    ("full, BF16 autocast", "method=full bf16=true"),
    ("full, BF16, 8-bit AdamW", "method=full dtype=bfloat16 master_weights=stochastic optim=adamw_8bit"),
    ("LoRA", "method=lora dtype=float32 lora_r=4"),
    ("LoRA on NF4", BIT4),
    ("LoRA on INT8", BIT4.replace("4bit", "8bit")),
]
# With batches of so many samples, and gradients of so many batches accumulated. The data's last steps are ragged in all.
FEATURES = [
    ("ragged", "", 3, 1),
    ("packed", "packing=true", 1, 1),
    ("accumulated", "", 2, 3),
    ("checkpointed", "gradient_checkpointing=true", 3, 1),
]
COMMON = "num_threads=1 warmup_steps=0 logging_steps=1 max_length=64 per_device_eval_batch_size=4"
SAMPLES = 61  # no number of ranks times a batch divides it


def data(folder):
    lines = (ROOT / "data" / "train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for name, first in (("train.jsonl", 0), ("eval.jsonl", SAMPLES)):
        (folder / name).write_text("".join(lines[first : first + SAMPLES]), encoding="utf-8")


def feature_keys(feature, accumulation=None):
    """accumulation: instead of the feature's own."""
    _, keys, batch, own = feature
    return f"{keys} per_device_train_batch_size={batch} gradient_accumulation_steps={accumulation or own}".strip()


def train(keys, folder, out, *more):
    """What the run printed, and why it failed, if so. Of a key that is there twice the last counts; the data are those of `folder`."""
    words = f"{COMMON} train_file={folder}/train.jsonl validation_file={folder}/eval.jsonl {keys} output_dir={out}".split()
    values = dict(word.split("=", 1) for word in words)
    command = [str(PROGRAM), "train", str(ROOT / "configs" / "quickstart.yaml"), *more, *(f"{key}={values[key]}" for key in values)]
    shutil.rmtree(out, ignore_errors=True)
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    wrong = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1] if done.returncode else ""
    return done.stdout, wrong
