#!/usr/bin/env python3
"""Writes tests/ops/golden/rotary_frequencies.json: how fast transformers turns each pair of a head, plain and stretched.

usage: scripts/golden/rotary.py [file]     needs torch and transformers; written with 2.11 and 5.24.
"""
import json
import pathlib
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM


def llama3(theta, factor, low, high, original):
    return {"rope_type": "llama3", "rope_theta": theta, "factor": factor, "low_freq_factor": low,
            "high_freq_factor": high, "original_max_position_embeddings": original}


def yarn(theta, factor, original, **more):
    return {"rope_type": "yarn", "rope_theta": theta, "factor": factor, "original_max_position_embeddings": original} | more


def plain(theta, **more):
    return {"rope_type": "default", "rope_theta": theta} | more


LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.02, 1.3, 1.5, 2.5, 2.6],
        "long_factor": [1.0, 1.5, 4.0, 9.0, 20.0, 33.3]}
# Family, size of a head, rope_parameters, other keys.
CASES = [
    ("llama", 10, plain(10000.0), {}),
    ("llama", 128, plain(500000.0), {}),
    ("llama", 14, plain(777.0), {}),
    ("llama", 64, plain(1000000.0), {}),
    ("llama", 128, llama3(500000.0, 8.0, 1.0, 4.0, 8192), {}),  # Llama 3.1
    ("llama", 64, llama3(500000.0, 32.0, 1.0, 4.0, 8192), {}),  # Llama 3.2 1B
    ("llama", 16, llama3(500.0, 8.0, 1.0, 4.0, 60), {}),
    ("llama", 4, llama3(77.0, 32.0, 1.0, 2.0, 16), {}),
    ("llama", 96, llama3(10000.0, 3.7, 0.9, 7.5, 1000), {}),
    ("llama", 24, plain(10000.0) | {"rope_type": "linear", "factor": 3.0}, {}),
    ("qwen3", 128, yarn(1000000.0, 4.0, 32768), {}),  # as Qwen3's card stretches it
    ("llama", 64, yarn(10000.0, 8.0, 4096, beta_fast=16.0, beta_slow=2.0, attention_factor=1.25), {}),
    ("llama", 20, yarn(500.0, 2.5, 64, truncate=False, mscale=0.7, mscale_all_dim=1.4), {}),
    ("llama", 8, yarn(100.0, 40.0, 5), {}),  # every pair turns too seldom
    ("phi3", 16, plain(10000.0, partial_rotary_factor=0.75), {}),
    ("phi3", 16, LONG | {"partial_rotary_factor": 0.75},
     {"max_position_embeddings": 131072, "original_max_position_embeddings": 4096}),
    ("phi3", 12, LONG | {"attention_factor": 1.19}, {"original_max_position_embeddings": 4096}),
    ("glm4", 16, plain(10000.0, partial_rotary_factor=0.5), {}),
    ("hunyuan_v1_dense", 128, plain(10000.0) | {"rope_type": "dynamic", "factor": 1.0, "alpha": 1000.0}, {}),
    ("hunyuan_v1_dense", 6, plain(300.0) | {"rope_type": "dynamic", "factor": 1.0, "alpha": 3.5}, {}),
]


def measure(family, size, rope, keys):
    config = dict(vocab_size=8, hidden_size=2 * size, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
                  num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2, rope_parameters=rope) | keys
    if family != "phi3":
        config["head_dim"] = size
    config.setdefault("max_position_embeddings", 131072)
    written = AutoConfig.for_model(family, **json.loads(json.dumps(config)))
    rotary = AutoModelForCausalLM.from_config(written).model.rotary_emb
    case = {"config": config | {"model_type": family}, "frequencies": rotary.inv_freq.tolist(),
            "magnitude": float(rotary.attention_scaling)}
    if rope["rope_type"] == "longrope":
        rotary(torch.zeros(1), torch.tensor([[4096]]))
        case["beyond"] = rotary.inv_freq.tolist()
    return case


def main():
    repository = pathlib.Path(__file__).resolve().parents[2]
    default = repository / "tests" / "ops" / "golden" / "rotary_frequencies.json"
    file = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    file.write_text("[" + ",\n".join(json.dumps(measure(*case)) for case in CASES) + "]\n")


if __name__ == "__main__":
    main()
