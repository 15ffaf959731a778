#!/usr/bin/env python3
"""Writes tests/model/mxfp4/: a small gpt-oss in the folder that its publisher gives, with experts in MXFP4.

usage: scripts/golden/mxfp4.py [folder]     needs what llama.py needs.

config.json and model.safetensors have the keys and the tensors of openai/gpt-oss-20b (no dtype: other weights are BF16),
with blocks and scales drawn at random; expected.safetensors has token ids and the logits of the weights as transformers
dequantizes them, in FP32.
"""
import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GptOssConfig, Mxfp4Config

IDS = torch.tensor([[1, 5, 9, 2, 7, 7, 3, 11, 30, 4]])
SIZES = dict(vocab_size=40, hidden_size=64, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=4,
             max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
BLOCK = 32


def write_plain(folder):
    model = AutoModelForCausalLM.from_config(GptOssConfig(**SIZES), attn_implementation="eager", dtype=torch.bfloat16)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape)
        parameter.data.copy_(noise * 0.3 if parameter.dim() > 1 else 1 + 0.2 * noise)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)


def write_blocks(folder):
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, columns, rows = tensors.pop(name).shape
        blocks = experts, rows, columns // BLOCK
        tensors[name + "_blocks"] = torch.randint(0, 256, (*blocks, BLOCK // 2), dtype=torch.uint8)
        tensors[name + "_scales"] = torch.randint(121, 126, blocks, dtype=torch.uint8)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    for key in ("dtype", "torch_dtype"):
        config.pop(key, None)
    config["quantization_config"] = {
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"],
        "quant_method": "mxfp4"}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def expect(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                 experts_implementation="eager",
                                                 quantization_config=Mxfp4Config(dequantize=True))
    model.eval()
    with torch.no_grad():
        logits = model(IDS).logits
    print(f"logits' spread {logits.std():.2f}")
    assert logits.std() >= 1
    save_file({"ids": IDS, "logits": logits.contiguous()}, folder / "expected.safetensors")


def main():
    default = pathlib.Path(__file__).resolve().parents[2] / "tests/model/mxfp4"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    torch.manual_seed(31)
    write_plain(folder)
    write_blocks(folder)
    expect(folder)


if __name__ == "__main__":
    main()
