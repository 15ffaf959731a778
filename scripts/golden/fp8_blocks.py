#!/usr/bin/env python3
"""Writes tests/model/fp8_blocks/: a small Llama and a small Qwen3-MoE in FP8 with a scale for each block of a matrix.

usage: scripts/golden/fp8_blocks.py [folder]     needs what llama.py needs.

Each folder's config.json and model.safetensors have the keys and the tensors of deepseek-ai/DeepSeek-V3 (scales in
FP32) or Qwen/Qwen3-30B-A3B-FP8 (scales in BF16, and a list of what has no codes); expected.safetensors has token ids
and the logits of transformers, in FP32, with each code times the scale of its block as weights.
"""
import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3MoeConfig

IDS = torch.tensor([[1, 5, 9, 2, 7, 7, 3, 11, 30, 4]])
BLOCK, LARGEST = 128, 448
SIZES = dict(vocab_size=40, hidden_size=128, intermediate_size=256, num_hidden_layers=1, max_position_embeddings=64,
             pad_token_id=0, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False)
FP8 = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [BLOCK, BLOCK]}
# Keys and values have 192 rows, a block and a half.
LLAMA = LlamaConfig(**SIZES, num_attention_heads=8, num_key_value_heads=4, head_dim=48)
QWEN = Qwen3MoeConfig(**SIZES, num_attention_heads=4, num_key_value_heads=2, head_dim=32, num_experts=4,
                      num_experts_per_tok=2, moe_intermediate_size=128, norm_topk_prob=True)
LEFT_OUT = ["lm_head", "model.embed_tokens", "model.norm", "model.layers.0.input_layernorm",
            "model.layers.0.post_attention_layernorm", "model.layers.0.mlp.gate"]


def blocks_of(matrix):
    """Codes, the scale of each block, and what they stand for."""
    rows, columns = matrix.shape
    down, across = -(-rows // BLOCK), -(-columns // BLOCK)
    codes, values, scales = torch.empty(rows, columns, dtype=torch.float8_e4m3fn), torch.empty(rows, columns), []
    for row in range(down):
        for column in range(across):
            block = slice(row * BLOCK, (row + 1) * BLOCK), slice(column * BLOCK, (column + 1) * BLOCK)
            scale = (matrix[block].abs().max() / LARGEST * (1 + 0.1 * torch.rand(()))).to(torch.bfloat16).float()
            codes[block] = (matrix[block] / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
            values[block] = codes[block].float() * scale
            scales.append(scale)
    return codes, torch.stack(scales).view(down, across), values


def is_coded(name):
    return name.endswith("_proj.weight")


def write(folder, config, scale_type, quantization):
    folder.mkdir(parents=True)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape)
        parameter.data.copy_((noise * 0.3 if parameter.dim() > 1 else 1 + 0.2 * noise).bfloat16().float())
    model.save_pretrained(folder / "plain")
    stored, plain = {}, {}
    for name, tensor in load_file(folder / "plain/model.safetensors").items():
        if is_coded(name):
            codes, scales, plain[name] = blocks_of(tensor)
            stored[name], stored[name + "_scale_inv"] = codes, scales.to(scale_type)
        else:
            plain[name], stored[name] = tensor, tensor.bfloat16()
    save_file(plain, folder / "plain/model.safetensors", metadata={"format": "pt"})
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    said = json.loads((folder / "plain/config.json").read_text())
    said["dtype"] = "bfloat16"
    said["quantization_config"] = quantization
    (folder / "config.json").write_text(json.dumps(said, indent=2) + "\n")
    model = AutoModelForCausalLM.from_pretrained(folder / "plain", attn_implementation="eager", dtype=torch.float32)
    shutil.rmtree(folder / "plain")
    model.eval()
    with torch.no_grad():
        logits = model(IDS).logits
    print(f"{folder.name}: logits' spread {logits.std():.2f}, {sorted(stored)[:4]}")
    assert logits.std() >= 1
    save_file({"ids": IDS, "logits": logits.contiguous()}, folder / "expected.safetensors")


def main():
    default = pathlib.Path(__file__).resolve().parents[2] / "tests/model/fp8_blocks"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(47)
    write(folder / "llama", LLAMA, torch.float32, FP8)
    write(folder / "qwen3_moe", QWEN, torch.bfloat16, FP8 | {"modules_to_not_convert": LEFT_OUT})


if __name__ == "__main__":
    main()
