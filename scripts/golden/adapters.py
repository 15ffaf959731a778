#!/usr/bin/env python3
"""Writes tests/checkpoint/golden/: adapters as PEFT saves them, on models of tests/model/golden/, and what PEFT computes.

usage: scripts/golden/adapters.py [folder [NAME...]]     needs what llama.py needs.

Each folder is PEFT's own (adapter_config.json, adapter_model.safetensors) with expected.json (the base, token ids,
targets, the loss before training and in each of ten steps of it) and expected.safetensors (logits, and a gradient for
every trained parameter) beside it. B is not zero, and what is trained whole differs from the base.
"""
import json
import pathlib
import sys

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from llama import draw_batch, measure

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
ADAPTERS = {
    "plain": dict(seed=71, base="multi_query", batch=(2, 23),
                  lora=dict(r=3, lora_alpha=40, target_modules=["q_proj", "mlp.up_proj"])),
    "rank_stabilised": dict(seed=72, base="qwen3", batch=(3, 14),
                            lora=dict(r=5, lora_alpha=21, use_rslora=True, target_modules="all-linear")),
    # PEFT's "norm" is every norm of every layer.
    "whole_vocabulary": dict(seed=73, base="grouped", batch=(2, 19),
                             lora=dict(r=4, lora_alpha=48, modules_to_save=["embed_tokens", "lm_head", "norm"])),
    # A projection with its bias, some norms, and the head alone: the first layers' inputs need no gradient.
    "whole_projections": dict(seed=74, base="qwen2_untied", batch=(1, 29),
                              lora=dict(r=2, lora_alpha=30, target_modules=["v_proj", "down_proj"],
                                        modules_to_save=["k_proj", "post_attention_layernorm", "lm_head"])),
    # One matrix, trained as both.
    "whole_tied": dict(seed=75, base="tied", batch=(2, 17),
                       lora=dict(r=3, lora_alpha=36, target_modules=["o_proj"], modules_to_save=["embed_tokens"],
                                 ensure_weight_tying=True)),
    # Attention, routers and experts, whose gate and up projections have the rank of both.
    "experts": dict(seed=76, base="qwen3_moe", batch=(2, 18), lora=dict(r=2, lora_alpha=10, target_modules="all-linear")),
    "experts_of_mixtral": dict(seed=77, base="mixtral", batch=(2, 15),
                               lora=dict(r=3, lora_alpha=20, use_rslora=True, target_modules=["q_proj", "w1", "w3"])),
    "experts_of_granite": dict(seed=79, base="granite_moe_adapted", batch=(1, 26),
                               lora=dict(r=2, lora_alpha=24, target_modules=["v_proj"],
                                         target_parameters=["experts.gate_up_proj", "experts.down_proj", "router.weight"])),
    "experts_of_gpt_oss": dict(seed=82, base="gpt_oss_adapted", batch=(1, 26),
                               lora=dict(r=2, lora_alpha=24, target_modules=["o_proj"],
                                         target_parameters=["experts.gate_up_proj", "experts.down_proj", "router.weight"])),
    # Matrices that are stored by what they read; positions trained whole.
    "transposed": dict(seed=80, base="gpt2_narrow", batch=(2, 19),
                       lora=dict(r=2, lora_alpha=28, target_modules=["c_attn", "mlp.c_proj"], fan_in_fan_out=True,
                                 modules_to_save=["wpe", "ln_f", "lm_head"])),
    # A text, not a list: a regular expression of whole names.
    "pattern": dict(seed=81, base="grouped", batch=(2, 21),
                    lora=dict(r=2, lora_alpha=44, target_modules=r".*\.layers\.[1-9]\d?\..*(v|o|down)_proj")),
    "down_alone": dict(seed=78, base="olmoe_normalised", batch=(1, 27),
                       lora=dict(r=2, lora_alpha=36, target_modules=["v_proj", "o_proj"],
                                 target_parameters=["mlp.experts.down_proj"])),
}


def eager(base):
    has_experts = "num_experts_per_tok" in json.loads((base / "config.json").read_text())
    return dict(attn_implementation="eager") | (dict(experts_implementation="eager") if has_experts else {})


def write(name, case, folder):
    generator = torch.Generator().manual_seed(case["seed"])
    base = REPOSITORY / "tests" / "model" / "golden" / case["base"]
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, **eager(base))
    ids, targets = draw_batch({"batch": case["batch"], "config": {"vocab_size": model.config.vocab_size}}, generator)
    adapted = get_peft_model(model, LoraConfig(lora_dropout=0.0, task_type="CAUSAL_LM", **case["lora"]))
    for parameter in (p for p in adapted.parameters() if p.requires_grad):
        noise = torch.randn(parameter.shape, generator=generator) * 0.1
        sizes = parameter.shape[0], parameter.shape[-1]
        whole = "modules_to_save" in case["lora"] and case["lora"]["r"] not in sizes
        parameter.data.copy_(parameter + noise if whole else noise)
    adapted.peft_config["default"].base_model_name_or_path = case["base"]
    adapted.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)

    tensors = {}
    losses = measure(adapted, ids, targets, "", tensors)
    spread = tensors["logits"].std().item()
    print(f"{name}: logits' spread {spread:.2f}, losses fall by {losses[0] - losses[-1]:.2f}")
    assert spread >= 1 and losses[0] - losses[-1] >= 0.5
    save_file({key: value.contiguous() for key, value in tensors.items()}, folder / "expected.safetensors")
    expected = {"base": case["base"], "ids": ids.tolist(), "targets": targets.tolist(), "losses": losses}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY / "tests" / "checkpoint" / "golden"
    for each, settings in ADAPTERS.items():
        if len(sys.argv) <= 2 or each in sys.argv[2:]:
            write(each, settings, root / each)
