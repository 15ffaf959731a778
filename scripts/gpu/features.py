"""One short run for each precision, optimizer, quantized base, kernel and family: predicted bytes against measured ones.

Requested, allocated, reserved, and the driver's figure after `fathom doctor --calibrate`; also the loss at a vocabulary of
128,256 with and without chunks, and models of 1B and 8B parameters. Weights are drawn on the GPU. The hash of the
allocator's trace is kept, so that scripts/gpu_claims can ask whether a later program still makes the same requests.
"""

import dataclasses
import json
import random
import shutil

from compare.random_model import make_model
from gpu import trace
from gpu.session import ROOT, Unit, read_steps, seconds_of_a_step, slug

LORA = ["method=lora", "target_modules=all-linear", "lora_r=8"]
LORA_BF16 = [*LORA, "dtype=bfloat16"]
OWN = "cuda_kernels=true"
CUDNN = "attn_implementation=cudnn"
GRAPHS = "cuda_graphs=true"
FP8 = ["bf16=true", "load_in_fp8=true", "fp8=true"]
SMALL = {
    "FP32": [],
    "TF32": ["tf32=true"],
    "BF16 autocast": ["bf16=true"],
    "BF16 autocast, own kernels": ["bf16=true", OWN],
    "BF16 autocast, own kernels, cuDNN's attention": ["bf16=true", OWN, CUDNN],
    "FP16 autocast, cuDNN's attention": ["fp16=true", CUDNN],
    "FP16 autocast": ["fp16=true"],
    "FP16 autocast, checkpointing": ["fp16=true", "gradient_checkpointing=true"],
    "BF16 autocast, packing": ["bf16=true", "packing=true"],
    "BF16 autocast, math attention": ["bf16=true", "attn_implementation=math"],
    "pure BF16": ["dtype=bfloat16"],
    "pure BF16, own kernels": ["dtype=bfloat16", OWN],
    "pure BF16, own kernels, CUDA graphs": ["dtype=bfloat16", OWN, GRAPHS],
    "BF16 autocast, own kernels, cuDNN's attention, CUDA graphs": ["bf16=true", OWN, CUDNN, GRAPHS],
    "BF16 autocast, checkpointing, CUDA graphs": ["bf16=true", "gradient_checkpointing=true", GRAPHS],
    "BF16 autocast, FP8 products": ["bf16=true", "fp8=true", OWN],
    "pure BF16, stochastic, adamw_8bit, FP8 products, CUDA graphs": [
        "dtype=bfloat16",
        "master_weights=stochastic",
        "optim=adamw_8bit",
        "fp8=true",
        OWN,
        GRAPHS,
    ],
    "pure BF16, FP32 masters": ["dtype=bfloat16", "master_weights=fp32"],
    "pure BF16, stochastic": ["dtype=bfloat16", "master_weights=stochastic"],
    "pure BF16, stochastic, adamw_8bit": ["dtype=bfloat16", "master_weights=stochastic", "optim=adamw_8bit"],
    "pure BF16, stochastic, adamw_8bit, own kernels": [
        "dtype=bfloat16",
        "master_weights=stochastic",
        "optim=adamw_8bit",
        OWN,
    ],
    "pure BF16, FP32 masters, own kernels": ["dtype=bfloat16", "master_weights=fp32", OWN],
    "BF16 autocast, adamw_8bit": ["bf16=true", "optim=adamw_8bit"],
    "BF16 autocast, adamw_bf16": ["bf16=true", "optim=adamw_bf16"],
    "BF16 autocast, lion": ["bf16=true", "optim=lion"],
    "BF16 autocast, adafactor": ["bf16=true", "optim=adafactor"],
    "BF16 autocast, sgd": ["bf16=true", "optim=sgd"],
    "BF16 autocast, QAT INT8": ["bf16=true", "qat=int8"],
    "BF16 autocast, QAT INT4 and activations": ["bf16=true", "qat=int4", "qat_activations=int8"],
    "LoRA, QAT INT8": [*LORA, "bf16=true", "qat=int8"],
    "LoRA, FP32": LORA,
    "LoRA, rank-stabilised, dropout": [*LORA, "bf16=true", "use_rslora=true", "lora_dropout=0.1"],
    "LoRA, embedding, head and norms trained whole": [
        *LORA,
        "bf16=true",
        "modules_to_save=[embed_tokens, lm_head, norm]",
    ],
    "LoRA, BF16": LORA_BF16,
    "LoRA, BF16, own kernels": [*LORA_BF16, OWN],
    "LoRA, BF16, own kernels, CUDA graphs": [*LORA_BF16, OWN, GRAPHS],
    "LoRA, FP16": [*LORA, "dtype=float16"],
    "LoRA, INT8 base": [*LORA_BF16, "bf16=true", "load_in_8bit=true"],
    "LoRA, INT8 base, own kernels": [*LORA_BF16, "bf16=true", "load_in_8bit=true", OWN],
    "LoRA, FP8 base": [*LORA_BF16, "load_in_fp8=true"],
    "LoRA, FP8 products": [*LORA_BF16, *FP8, OWN],
    "LoRA, FP8 products by LibTorch's operators, dropout": [*LORA_BF16, *FP8, "lora_dropout=0.1"],
    "LoRA, FP8 products, CUDA graphs": [*LORA_BF16, *FP8, OWN, GRAPHS],
    "LoRA, NF4 base": [*LORA_BF16, "load_in_4bit=true"],
    "LoRA, NF4 base, own kernels": [*LORA_BF16, "load_in_4bit=true", OWN],
    "LoRA, NF4 base, own kernels, CUDA graphs": [*LORA_BF16, "load_in_4bit=true", OWN, GRAPHS],
    "LoRA, NF4 base, double quantization": [*LORA_BF16, "load_in_4bit=true", "bnb_4bit_use_double_quant=true"],
}
CHUNKED = {"full, FP32": [], "full, BF16 autocast": ["bf16=true"], "LoRA, BF16": ["method=lora", "dtype=bfloat16"]}
FULL_8BIT = ["dtype=bfloat16", "master_weights=stochastic", "optim=adamw_8bit", "gradient_accumulation_steps=4", OWN]
LORA_CUDNN = [*LORA_BF16, "bf16=true", OWN, CUDNN]
# Model, batch, settings, and the length where it is not 2,048.
LARGE = {
    "llama-3.2-1b, pure BF16, 4 × 2,048": ("llama-3.2-1b", 4, ["dtype=bfloat16"]),
    "llama-3.2-1b, pure BF16, own kernels": ("llama-3.2-1b", 4, ["dtype=bfloat16", OWN]),
    "llama-3.1-8b, LoRA, BF16 base, 2 × 2,048": ("llama-3.1-8b", 2, LORA_BF16),
    "llama-3.1-8b, LoRA, BF16 base, own kernels": ("llama-3.1-8b", 2, [*LORA_BF16, OWN]),
    "llama-3.1-8b, LoRA, BF16 base, autocast": ("llama-3.1-8b", 2, [*LORA_BF16, "bf16=true"]),
    "llama-3.1-8b, LoRA, INT8 base": ("llama-3.1-8b", 2, [*LORA_BF16, "load_in_8bit=true"]),
    "llama-3.1-8b, LoRA, NF4 base": ("llama-3.1-8b", 2, [*LORA_BF16, "load_in_4bit=true"]),
    "llama-3.1-8b, LoRA, NF4 base, own kernels": ("llama-3.1-8b", 2, [*LORA_BF16, "load_in_4bit=true", OWN]),
    "llama-3.1-8b, LoRA, autocast, BF16 base, own kernels": ("llama-3.1-8b", 2, [*LORA_BF16, "bf16=true", OWN]),
    "llama-3.1-8b, LoRA, autocast, NF4 base, own kernels": (
        "llama-3.1-8b",
        2,
        [*LORA_BF16, "bf16=true", "load_in_4bit=true", OWN],
    ),
    "llama-3.1-8b, LoRA, autocast, INT8 base, own kernels": (
        "llama-3.1-8b",
        2,
        [*LORA_BF16, "bf16=true", "load_in_8bit=true", OWN],
    ),
    "llama-3.1-8b, LoRA, FP8 base": ("llama-3.1-8b", 2, [*LORA_BF16, "load_in_fp8=true"]),
    "llama-3.1-8b, full, stochastic, adamw_8bit, checkpointing, 1 × 2,048": (
        "llama-3.1-8b",
        1,
        ["dtype=bfloat16", "master_weights=stochastic", "optim=adamw_8bit", "gradient_checkpointing=true"],
    ),
    "llama-3.1-8b, full, stochastic, adamw_8bit, checkpointing, own kernels, 1 × 2,048": (
        "llama-3.1-8b",
        1,
        ["dtype=bfloat16", "master_weights=stochastic", "optim=adamw_8bit", "gradient_checkpointing=true", OWN],
    ),
    "llama-3.1-8b, LoRA, autocast, BF16 base, own kernels, 2 × 4,096": (
        "llama-3.1-8b",
        2,
        [*LORA_BF16, "bf16=true", OWN],
        4096,
    ),
    "llama-3.2-1b, pure BF16, own kernels, 16 × 2,048": (
        "llama-3.2-1b",
        4,
        ["dtype=bfloat16", "gradient_accumulation_steps=4", OWN],
    ),
    "llama-3.1-8b, full, stochastic, adamw_8bit, own kernels, 8 × 2,048": ("llama-3.1-8b", 2, FULL_8BIT),
    "qwen2.5-7b, full, stochastic, adamw_8bit, own kernels, 8 × 2,048": ("qwen2.5-7b", 2, FULL_8BIT),
    "llama-3.2-1b, pure BF16, own kernels, cuDNN's attention": ("llama-3.2-1b", 4, ["dtype=bfloat16", OWN, CUDNN]),
    "llama-3.2-1b, pure BF16, own kernels, cuDNN's attention, 16 × 2,048": (
        "llama-3.2-1b",
        4,
        ["dtype=bfloat16", "gradient_accumulation_steps=4", OWN, CUDNN],
    ),
    "llama-3.1-8b, LoRA, autocast, own kernels, cuDNN's attention": ("llama-3.1-8b", 2, LORA_CUDNN),
    "llama-3.2-1b, pure BF16, own kernels, cuDNN's attention, CUDA graphs": (
        "llama-3.2-1b",
        4,
        ["dtype=bfloat16", OWN, CUDNN, GRAPHS],
    ),
    "llama-3.1-8b, LoRA, autocast, own kernels, cuDNN's attention, CUDA graphs": (
        "llama-3.1-8b",
        2,
        [*LORA_CUDNN, GRAPHS],
    ),
    "llama-3.1-8b, LoRA, autocast, own kernels, cuDNN's attention, 2 × 4,096": ("llama-3.1-8b", 2, LORA_CUDNN, 4096),
    "llama-3.1-8b, LoRA, autocast, own kernels, cuDNN's attention, NF4 base": (
        "llama-3.1-8b",
        2,
        [*LORA_CUDNN, "load_in_4bit=true"],
    ),
    "llama-3.1-8b, LoRA, autocast, own kernels, cuDNN's attention, INT8 base": (
        "llama-3.1-8b",
        2,
        [*LORA_CUDNN, "load_in_8bit=true"],
    ),
    "llama-3.1-8b, LoRA, FP8 products, own kernels, cuDNN's attention, CUDA graphs": (
        "llama-3.1-8b",
        2,
        [*LORA_BF16, *FP8, OWN, CUDNN, GRAPHS],
    ),
    "llama-3.1-8b, full, stochastic, adamw_8bit, own kernels, cuDNN's attention, 8 × 2,048": (
        "llama-3.1-8b",
        2,
        [*FULL_8BIT, CUDNN],
    ),
    "qwen2.5-7b, full, stochastic, adamw_8bit, own kernels, cuDNN's attention, 8 × 2,048": (
        "qwen2.5-7b",
        2,
        [*FULL_8BIT, CUDNN],
    ),
}
FAMILIES = {
    "Qwen2.5-0.5B, BF16 autocast": ("qwen2.5-0.5b", ["bf16=true"]),
    "Qwen3-0.6B, pure BF16": ("qwen3-0.6b", ["dtype=bfloat16"]),
    "Qwen3-0.6B, LoRA, NF4 base": ("qwen3-0.6b", [*LORA_BF16, "load_in_4bit=true"]),
    "window of 128, BF16 autocast": ("window", ["bf16=true"]),
    "window of 128, LoRA, FP32": ("window", LORA),
    "LoRA on a folder of INT4 codes": ("int4", LORA_BF16),
    "FLAN-T5 base, LoRA, BF16 autocast": ("flan-t5-base", [*LORA, "bf16=true"]),
    "FLAN-T5 small, BF16 autocast": ("flan-t5-small", ["bf16=true"]),
    "Gemma 3 270M, pure BF16": ("gemma-3-270m", ["dtype=bfloat16"]),
    "Gemma 3 270M, LoRA, NF4 base, own kernels": ("gemma-3-270m", [*LORA_BF16, "load_in_4bit=true", OWN]),
    "Granite 3.0 1B-A400M, experts, LoRA, BF16": ("granite-3.0-1b-a400m", LORA_BF16),
    "Granite 3.0 1B-A400M, experts, BF16 autocast": ("granite-3.0-1b-a400m", ["bf16=true"]),
    "OLMo 2 1B, LoRA, BF16, checkpointing": ("olmo-2-1b", [*LORA_BF16, "gradient_checkpointing=true"]),
    "GPT-2, BF16 autocast": ("gpt2", ["bf16=true"]),
    "SmolLM3 3B, LoRA, INT8 base": ("smollm3-3b", [*LORA_BF16, "load_in_8bit=true"]),
}
VOCABULARY = 128256
NARROW = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-05,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "dtype": "float32",
}

SMOLLM = "configs/models/smollm2-135m"


@dataclasses.dataclass(frozen=True)
class Feature:
    group: str
    title: str
    model: str  # a folder of the repository, or one that `model_folder` makes
    length: int
    batch: int
    settings: tuple
    steps: int = 6
    counted: float = 1  # the share of a line's tokens that count for the loss
    seconds: float = 8

    @property
    def key(self):
        return f"features/{slug(self.group)}/{slug(self.title)}"


def large(title, group):
    model, batch, settings, *length = LARGE[title]
    length = length[0] if length else 2048
    seconds = 35 if "optim=adamw_8bit" in settings else 10  # drawn in full, of 8 billion parameters
    return Feature(group, title, f"configs/models/{model}", length, batch, tuple(settings), seconds=seconds)


def features():
    """Those that no GPU has seen come before those that one has."""
    for title, (model, settings) in FAMILIES.items():
        model = model if model in ("window", "int4") else f"configs/models/{model}"
        yield Feature("families and folders, 4 × 512", title, model, 512, 4, tuple(settings))
    for title in LARGE:
        yield large(title, "large models")
    for title, settings in SMALL.items():
        yield Feature("smollm2-135m, 4 × 512", title, SMOLLM, 512, 4, tuple(settings))
    for share in (1, 0.25):
        counted = "all" if share == 1 else f"{share:.0%} of"
        for title, settings in CHUNKED.items():
            for chunk in (0, 4096, 1024, 256):
                title_ = f"{title}, {counted} tokens count, {f'chunks of {chunk:,}' if chunk else 'full logits'}"
                settings_ = (*settings, f"loss_chunk_size={chunk}")
                yield Feature("vocabulary 128,256, 4 × 1,024", title_, "narrow", 1024, 4, settings_, 3, share, 6)


def units(session):
    return [Unit(f.key, f.title, f.seconds, lambda f=f: run(f, session)) for f in features()]


def model_folder(name, session):
    folder = session.work / f"features-{name}"
    config = json.loads((ROOT / SMOLLM / "config.json").read_text())
    if folder.exists():
        return folder
    if name == "int4":
        whole = session.work / "features-whole"
        make_model(whole, config)
        session.call([session.fathom, "quantize", whole, "--format", "int4", "--out", folder], 120)
        shutil.rmtree(whole)
        return folder
    window = {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 128}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"narrow": NARROW, "window": config | window}[name]))
    return folder


def write_ids(file, vocabulary, lines, length, counted):
    if file.exists():
        return file
    numbers = random.Random(3)
    prompt = round(length * (1 - counted))
    with file.open("w") as out:
        for _ in range(lines):
            ids = [3 + int((vocabulary - 3) * numbers.random() ** 4) for _ in range(length)]
            out.write(json.dumps({"input_ids": ids, "labels": [-100] * prompt + ids[prompt:]}) + "\n")
    return file


def write_config(feature, session, run, steps, **more):
    """The YAML file of a run of the feature into the folder `run`."""
    made = "/" not in feature.model
    model = model_folder(feature.model, session) if made else ROOT / feature.model
    vocabulary = json.loads((model / "config.json").read_text())["vocab_size"]
    name = f"features-{vocabulary}-{feature.length}-{feature.counted}.jsonl"
    ids = write_ids(session.work / name, vocabulary, 48, feature.length, feature.counted)
    settings = {
        "model_name_or_path": model,
        "random_init": "false" if feature.model == "int4" else "true",
        "device": "cuda",
        "train_file": ids,
        "output_dir": run,
        "max_length": feature.length,
        "per_device_train_batch_size": feature.batch,
        "max_steps": steps,
        "save_strategy": "'no'",
        "logging_steps": 1,
        "cuda_kernels": "true" if OWN in feature.settings else "false",
        **more,
    }
    config = session.work / "features.yaml"
    config.write_text("".join(f"{key}: {value}\n" for key, value in settings.items()))
    return config


def run(feature, session):
    folder, file = session.work / "features-run", session.work / "features.trace"
    shutil.rmtree(folder, ignore_errors=True)
    config = write_config(feature, session, folder, feature.steps)
    said = session.train(config, *feature.settings, "--trace", file)
    memory = json.loads((folder / "memory.json").read_text())
    steps = read_steps(folder)
    return {
        "group": feature.group,
        "settings": feature.settings,
        **{name: memory[name] for name in ("peak", "allocated", "reserved", "device")},
        "losses": [step["loss"] for step in steps],
        "step_seconds": None if session.phantom else seconds_of_a_step(steps),
        "trace_sha256": trace.digest(trace.read(file).blocks),
        "passed": "equal to the byte" in said,
        "wrong": [line for line in said.splitlines() if "differ" in line.lower()][-4:],
    }
