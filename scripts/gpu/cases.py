"""The configurations of the GPU check, and their inputs."""

import dataclasses
import json
import random

from compare.rows import Row

# Two shapes in fathom's config.json: one with odd sizes throughout, and the 125M Llama that is also compared on a CPU.
SHAPES = {
    "odd": {
        "vocab_size": 1003,
        "hidden_size": 200,
        "intermediate_size": 333,
        "num_hidden_layers": 3,
        "num_attention_heads": 5,
        "num_key_value_heads": 5,
        "head_dim": 40,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
    },
    "125m": {
        "vocab_size": 32000,
        "hidden_size": 768,
        "intermediate_size": 2048,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
    },
}
# Tokens of each example: batches of different lengths, and batches of one.
ROWS_OF_TOKENS = {
    ("odd", "ragged"): [97, 64, 31, 97, 80, 5, 97, 64, 12, 3, 77, 50],
    ("odd", "even"): [96] * 12,
    ("125m", "ragged"): [512, 511, 130, 7, 400, 512, 256, 255, 33, 480, 512, 64],
    ("125m", "even"): [512] * 16,
}
BATCH = {"odd": 2, "125m": 4}
STEPS = 6


@dataclasses.dataclass(frozen=True)
class Case:
    shape: str
    row: Row
    label: str = ""  # what is special about it
    settings: tuple = ()  # (key, value) beside the row's
    data: str = "even"
    allocator: str = ""  # PYTORCH_ALLOC_CONF; empty: fathom chooses, which is expandable segments
    resume: bool = False  # run, then go on from its checkpoint in another process
    near_full: bool = False  # with about as much memory as it asks for

    @property
    def name(self):
        words = self.label.replace(",", "").replace(" ", "-")
        return "-".join(filter(None, [self.shape, self.row.name, words]))

    @property
    def title(self):
        return f"{self.shape}: {self.row.title}" + (f", {self.label}" if self.label else "")


FIXED = "expandable_segments:False"
MATH = (("attn_implementation", "math"),)
CUDNN = (("attn_implementation", "cudnn"),)
EVALUATION = (
    ("eval_strategy", "steps"),
    ("eval_steps", 2),
    ("eval_on_start", "true"),
    ("per_device_eval_batch_size", 3),
)
SAVING = (("save_strategy", "steps"), ("save_steps", 3))
ALL_LINEAR = (("target_modules", "all-linear"), ("lora_dropout", 0.1), ("lora_r", 16))


def accumulate(count):
    return (("gradient_accumulation_steps", count),)


CASES = [
    Case("odd", Row("full", "fp32"), "ragged", data="ragged"),
    Case("odd", Row("full", "autocast"), "math", MATH),
    Case("odd", Row("full", "bf16", True)),
    Case("odd", Row("full", "autocast"), "ragged and accumulated", accumulate(2), data="ragged"),
    Case("odd", Row("lora", "fp32"), "math", MATH),
    Case("odd", Row("lora", "autocast", True), "ragged", data="ragged"),
    Case("odd", Row("lora", "bf16"), "accumulated", accumulate(3)),
    Case("odd", Row("full", "fp32", True), "evaluated, saved and resumed", EVALUATION + SAVING, "ragged", resume=True),
    Case("125m", Row("full", "fp32")),
    Case("125m", Row("full", "autocast")),
    Case("125m", Row("full", "bf16")),
    Case("125m", Row("full", "autocast", True), "ragged", data="ragged"),
    Case("125m", Row("lora", "autocast"), "all linear layers", ALL_LINEAR),
    Case("125m", Row("lora", "bf16"), "math", MATH),
    Case("125m", Row("full", "autocast"), "evaluated", EVALUATION, data="ragged"),
    Case("125m", Row("full", "autocast"), "saved and resumed", SAVING, resume=True),
    Case("125m", Row("lora", "autocast"), "evaluated, saved and resumed", EVALUATION + SAVING, "ragged", resume=True),
    Case("125m", Row("full", "autocast"), "cudnn, evaluated", CUDNN + EVALUATION, data="ragged"),
    Case("125m", Row("lora", "bf16", True), "cudnn", CUDNN),
    Case("125m", Row("full", "autocast"), "near-full memory", data="ragged", near_full=True, allocator=FIXED),
    Case("125m", Row("lora", "autocast"), "near-full memory", data="ragged", near_full=True, allocator=FIXED),
    Case("125m", Row("full", "autocast"), "fixed segments", data="ragged", allocator=FIXED),
]


def write_inputs(folder):
    """A folder with a config.json for each shape, and files of ids."""
    for name, shape in SHAPES.items():
        model = folder / f"model-{name}"
        model.mkdir(parents=True, exist_ok=True)
        document = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "torch_dtype": "float32",
            "bos_token_id": 1,
            "eos_token_id": 2,
            "initializer_range": 0.02,
            **shape,
        }
        (model / "config.json").write_text(json.dumps(document, indent=2) + "\n")
    for (name, data), lengths in ROWS_OF_TOKENS.items():
        source = random.Random(7)
        vocabulary = SHAPES[name]["vocab_size"]
        with open(folder / f"ids-{name}-{data}.jsonl", "w") as out:
            for length in lengths:
                ids = [3 + int((vocabulary - 3) * source.random() ** 4) for _ in range(length)]
                out.write(json.dumps({"input_ids": ids, "labels": ids}) + "\n")


def write_config(case, folder, run, device="cuda"):
    """The case's YAML file for a run folder of its own."""
    data = folder / f"ids-{case.shape}-{case.data}.jsonl"
    settings = {
        "model_name_or_path": folder / f"model-{case.shape}",
        "random_init": "true",
        "train_file": data,
        "validation_file": data,
        "output_dir": run,
        "max_length": max(ROWS_OF_TOKENS[case.shape, case.data]),
        "max_steps": STEPS,
        **case.row.fathom_settings(),
        "device": device,
        "cuda_kernels": "false",
        "per_device_train_batch_size": BATCH[case.shape],
        **dict(case.settings),
    }
    config = folder / f"{run.name}-{device}.yaml"
    config.write_text("".join(f"{key}: {value}\n" for key, value in settings.items()))
    return config
