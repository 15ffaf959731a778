#!/usr/bin/env python3
"""Writes tests/model/quantized/: a small Llama in folders that bitsandbytes and compressed-tensors quantized.

usage: scripts/golden/quantized_folders.py [folder]     needs torch, transformers, bitsandbytes, compressed-tensors,
safetensors; written with 2.11, 5.23, 0.50, 0.20.

A folder for each layout: config.json and model.safetensors as transformers and those libraries save them, and
expected.safetensors with token ids and the logits of the weights as the libraries read them back, in FP32. "plain" is the
model before.
"""
import json
import pathlib
import shutil
import sys

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig

IDS = torch.tensor([[1, 5, 9, 2, 7, 7, 3, 11, 30, 4]])
# Rows of whole blocks of 64: bitsandbytes' CPU kernel reads NF4 wrongly where blocks go across the ends of rows.
SIZES = dict(vocab_size=40, hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
             num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)
BITSANDBYTES = {
    "int8": dict(load_in_8bit=True),
    "nf4": dict(load_in_4bit=True, bnb_4bit_quant_type="nf4"),
    "nf4_double": dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True),
}
COMPRESSED_TENSORS = {  # format, largest code, weights
    "int4": ("pack-quantized", 7.5, dict(num_bits=4, type="int", strategy="group", group_size=32)),
    "fp8": ("float-quantized", 448.0, dict(num_bits=8, type="float", strategy="channel")),
    "fp8_tensor": ("float-quantized", 448.0, dict(num_bits=8, type="float", strategy="tensor")),
    "int8_rows": ("int-quantized", 127.5, dict(num_bits=8, type="int", strategy="channel")),
}


def make_plain(folder):
    torch.manual_seed(21)
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES), attn_implementation="eager", dtype=torch.float32)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape)
        parameter.data.copy_(noise * 0.4 if parameter.dim() > 1 else 1 + 0.2 * noise)
    model.save_pretrained(folder)


def expect(folder, model):
    model.eval()
    with torch.no_grad():
        logits = model(IDS).logits
    save_file({"ids": IDS, "logits": logits.float().contiguous()}, folder / "expected.safetensors")


def write_bitsandbytes(plain, folder, settings):
    def load():
        return AutoModelForCausalLM.from_pretrained(plain, dtype=torch.float32, device_map="cpu", attn_implementation="eager",
                                                    quantization_config=BitsAndBytesConfig(**settings))

    load().save_pretrained(folder)
    expect(folder, load().dequantize(torch.float32))


def scale_of(weight, largest_code, settings):
    """One for a group, a row, or all."""
    if settings["strategy"] == "group":
        weight = weight.unflatten(1, (-1, settings["group_size"]))
    if settings["strategy"] == "tensor":
        return weight.abs().max().reshape(1) / largest_code
    scale = weight.abs().amax(-1) / largest_code
    return scale if settings["strategy"] == "group" else scale.unsqueeze(1)


def write_compressed_tensors(plain, folder, name, largest_code, settings):
    weights = QuantizationArgs(symmetric=True, dynamic=False, **settings)
    scheme = QuantizationScheme(targets=["Linear"], weights=weights)
    compressor = BaseCompressor.get_value_from_registry(name)
    model = AutoModelForCausalLM.from_pretrained(plain, dtype=torch.float32, attn_implementation="eager")
    tensors = dict(model.state_dict())
    for module_name, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear) or module_name == "lm_head":
            continue
        weight = tensors.pop(f"{module_name}.weight")
        state = {"weight": weight, "weight_scale": scale_of(weight, largest_code, settings)}
        stored = compressor.compress(state, scheme)
        module.weight.data.copy_(compressor.decompress(stored, scheme)["weight"])
        tensors |= {f"{module_name}.{key}": value.contiguous() for key, value in stored.items()}
    config = json.loads((plain / "config.json").read_text())
    config["quantization_config"] = json.loads(QuantizationConfig(
        config_groups={"group_0": scheme}, format=name, quantization_status="compressed", ignore=["lm_head"]).model_dump_json())
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    expect(folder, model)


def main():
    default = pathlib.Path(__file__).resolve().parents[2] / "tests/model/quantized"
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    shutil.rmtree(root, ignore_errors=True)
    plain = root / "plain"
    plain.mkdir(parents=True)
    make_plain(plain)
    expect(plain, AutoModelForCausalLM.from_pretrained(plain, attn_implementation="eager"))
    for name, settings in BITSANDBYTES.items():
        (root / name).mkdir()
        write_bitsandbytes(plain, root / name, settings)
    for name, (layout, largest_code, settings) in COMPRESSED_TENSORS.items():
        (root / name).mkdir()
        write_compressed_tensors(plain, root / name, layout, largest_code, settings)
    for file in root.rglob("generation_config.json"):
        file.unlink()


if __name__ == "__main__":
    main()
