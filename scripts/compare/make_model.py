"""Writes a model to compare on, by default a Llama of 125M parameters, with random weights, and files of ids to train on."""

import argparse
import json
import pathlib
import random

SHAPE = {
    "vocab_size": 32000,
    "hidden_size": 768,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def write_ids(file, vocabulary, length, lines):
    """Rows of ids with a skewed distribution, so that a model has something to learn within a few steps."""
    source = random.Random(7)
    with open(file, "w") as out:
        for _ in range(lines):
            ids = [3 + int((vocabulary - 3) * source.random() ** 4) for _ in range(length)]
            out.write(json.dumps({"input_ids": ids, "labels": ids}) + "\n")


def write_model(folder, shape, device):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig

    torch.manual_seed(1)
    config = AutoConfig.from_pretrained(shape) if shape else LlamaConfig(**SHAPE)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16 if shape else torch.float32)
    model.save_pretrained(folder)
    return config.vocab_size


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=pathlib.Path, help="folder to write the model to")
    parser.add_argument("--config", type=pathlib.Path, help="folder of another shape; its weights are written in BF16")
    parser.add_argument("--device", default="cpu", help="that draws the weights")
    parser.add_argument("--ids", type=pathlib.Path, help="file to write JSON lines of input_ids and labels to")
    parser.add_argument("--vocabulary", type=int, default=SHAPE["vocab_size"])
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--lines", type=int, default=8)
    arguments = parser.parse_args()
    if arguments.model:
        arguments.vocabulary = write_model(arguments.model, arguments.config, arguments.device)
    if arguments.ids:
        write_ids(arguments.ids, arguments.vocabulary, arguments.length, arguments.lines)
