#!/usr/bin/env python3
"""Writes tests/ops/golden/rotary_frequencies.json: how fast transformers turns each pair of a head, plain and stretched.

usage: scripts/golden/rotary.py [file]     needs torch and transformers; written with 2.11 and 5.23.
"""
import json
import pathlib
import sys

from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

# theta, head size, and of llama3 positions: factor, low and high frequency factor, original positions.
CASES = [
    (10000.0, 10, None),
    (500000.0, 128, None),
    (777.0, 14, None),
    (1000000.0, 64, None),
    (500000.0, 128, (8.0, 1.0, 4.0, 8192)),  # Llama 3.1
    (500000.0, 64, (32.0, 1.0, 4.0, 8192)),  # Llama 3.2 1B
    (500.0, 16, (8.0, 1.0, 4.0, 60)),
    (77.0, 4, (32.0, 1.0, 2.0, 16)),
    (10000.0, 96, (3.7, 0.9, 7.5, 1000)),
]


def frequencies(theta, size, scaling):
    rope = {"rope_type": "default", "rope_theta": theta}
    if scaling:
        factor, low, high, original = scaling
        rope = {"rope_type": "llama3", "rope_theta": theta, "factor": factor, "low_freq_factor": low,
                "high_freq_factor": high, "original_max_position_embeddings": original}
    config = LlamaConfig(hidden_size=size, num_attention_heads=1, head_dim=size, max_position_embeddings=131072,
                         rope_parameters=rope)
    return LlamaRotaryEmbedding(config).inv_freq.tolist()


def main():
    repository = pathlib.Path(__file__).resolve().parents[2]
    default = repository / "tests" / "ops" / "golden" / "rotary_frequencies.json"
    file = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    cases = [{"theta": theta, "head_size": size, "scaling": scaling, "frequencies": frequencies(theta, size, scaling)}
             for theta, size, scaling in CASES]
    file.write_text("[" + ",\n".join(json.dumps(case) for case in cases) + "]\n")


if __name__ == "__main__":
    main()
