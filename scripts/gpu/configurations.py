"""Random configurations on the GPU's own allocator: each against its run on the phantom, event by event, and its own plan.

Small shapes of all families with awkward sizes, ragged data, and keys that decide what is allocated when. Only the program is
needed: scripts/campaigns/random_configurations draws from more keys, but on phantoms and from what scripts/test builds.
"""

import json
import random
import shutil

from gpu import trace
from gpu.session import Unit, UnitFailed, figure

DRAWS = 200
FAMILIES = {
    "llama": {"architectures": ["LlamaForCausalLM"], "attention_bias": False},
    "mistral": {"architectures": ["MistralForCausalLM"]},
    "qwen2": {"architectures": ["Qwen2ForCausalLM"], "use_sliding_window": False},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "use_sliding_window": False, "attention_bias": False},
}
PRECISIONS = [{}, {"bf16": "true"}, {"dtype": "bfloat16"}, {"tf32": "true"}]
OPTIMIZERS = ["adamw", "adamw", "adamw_8bit", "adamw_bf16", "sgd", "lion", "adafactor"]
BASES = [{}, {}, {"load_in_8bit": "true"}, {"load_in_4bit": "true"}, {"load_in_fp8": "true"}]


def units(session):
    return [Unit(f"random/{n}", f"draw {n}", 12, lambda n=n: run(n, session)) for n in range(DRAWS)]


def draw(number):
    """A config.json, the lengths of lines, and settings: the same for the same number."""
    dice = random.Random(number)
    family = dice.choice(list(FAMILIES))
    heads_of_keys, groups, head = dice.randint(1, 3), dice.randint(1, 4), dice.choice([8, 16, 32, 40, 64, 128])
    config = {
        **FAMILIES[family],
        "model_type": family,
        "vocab_size": dice.choice([101, 1013, 32000, 50257]),
        "hidden_size": dice.choice([heads_of_keys * groups * head, 8 * dice.randint(3, 90)]),
        "intermediate_size": dice.randint(16, 900),
        "num_hidden_layers": dice.randint(1, 6),
        "num_attention_heads": heads_of_keys * groups,
        "num_key_value_heads": heads_of_keys,
        "head_dim": head,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 1024,
        "tie_word_embeddings": dice.random() < 0.5,
    }
    if family == "qwen2":
        config["hidden_size"] = heads_of_keys * groups * head  # it has no head_dim of its own
        del config["head_dim"]
    if family == "mistral":
        config["sliding_window"] = dice.choice([None, 16, 128])
    longest = dice.choice([33, 129, 300, 700])
    lengths = [dice.randint(2, longest) for _ in range(dice.randint(6, 40))]
    settings = {
        "max_length": longest,
        "per_device_train_batch_size": dice.randint(1, 7),
        "num_train_epochs": 1,
        "seed": number,
        **dice.choice(PRECISIONS),
    }
    if dice.random() < 0.5:
        settings |= {"method": "lora", "lora_r": dice.choice([1, 8, 17]), "lora_dropout": dice.choice([0, 0.1])}
        settings |= {"target_modules": dice.choice(["all-linear", "[q_proj, v_proj]"])}
        settings |= dice.choice(BASES) if "tf32" not in settings else {}
    else:
        settings["optim"] = dice.choice(OPTIMIZERS)
        if settings.get("dtype") == "bfloat16":
            settings |= dice.choice([{"master_weights": "fp32"}, {"master_weights": "stochastic"}, {}])
    for key, value, share in (
        ("gradient_checkpointing", "true", 0.3),
        ("gradient_accumulation_steps", dice.randint(2, 4), 0.3),
        ("packing", "true", 0.2),
        ("group_by_length", "true", 0.2),
        ("attn_implementation", "math", 0.2),
        ("cuda_kernels", "false", 0.5),
        ("loss_chunk_size", dice.choice([0, 64, 256]), 0.4),
        ("max_grad_norm", 0, 0.2),
    ):
        if dice.random() < share:
            settings[key] = value
    if dice.random() < 0.3:
        settings |= {"eval_strategy": "steps", "eval_steps": 2, "per_device_eval_batch_size": dice.randint(1, 9)}
    return config, lengths, settings


def run(number, session):
    config, lengths, settings = draw(number)
    folder = session.work / "random"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "model").mkdir(parents=True)
    (folder / "model/config.json").write_text(json.dumps(config))
    ids = random.Random(number)
    lines = [{"input_ids": [ids.randrange(config["vocab_size"]) for _ in range(length)]} for length in lengths]
    (folder / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    paths = {"model_name_or_path": folder / "model", "train_file": folder / "data.jsonl", "output_dir": folder / "out"}
    if "eval_strategy" in settings:
        paths["validation_file"] = folder / "data.jsonl"
    fixed = {"random_init": "true", "device": "cuda", "save_strategy": "'no'", "logging_steps": 1}
    text = "".join(f"{key}: {value}\n" for key, value in (paths | fixed | settings).items())
    (folder / "run.yaml").write_text(text)
    kept = {"yaml": {key: value for key, value in settings.items()}, "model": config, "lengths": lengths}
    seen = []
    for options in (session.phantom_options(), session.gpu_options()):
        shutil.rmtree(folder / "out", ignore_errors=True)
        try:
            session.train(folder / "run.yaml", "--trace", folder / "trace", options=options)
        except UnitFailed as error:
            if seen:
                raise
            return {"refused": str(error), **kept}  # by the phantom: nothing to compare
        seen.append((json.loads((folder / "out/memory.json").read_text()), trace.read(folder / "trace")))
    return {**judge(*seen), **kept}


def judge(phantom, real):
    """Each (memory.json, trace): what differs, in words."""
    wrong = []
    if difference := trace.first_difference(phantom[1].blocks, real[1].blocks):
        wrong.append(difference)
    for name in ("peak", "allocated", "reserved"):
        played, measured = figure(phantom[0], name, "measured"), figure(real[0], name, "measured")
        if played != measured:
            wrong.append(f"{name} {measured - played:+,} of the phantom's run")
    if (beyond := figure(real[0], "peak", "measured") - figure(real[0], "peak", "dry_run")) > 0:
        wrong.append(f"requested {beyond:+,} of the plan")
    low, high = real[0]["reserved"]["range"]
    if figure(real[0], "reserved", "measured") > high:
        wrong.append(f"reserved {figure(real[0], 'reserved', 'measured') - high:+,} of the plan")
    plan = "exact" if figure(real[0], "reserved", "measured") in range(low, high + 1) else "a bound"
    return {"passed": not wrong, "wrong": wrong, "plan": plan, "events": len(real[1].all)}
