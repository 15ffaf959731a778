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


def write_ids(file, vocabulary, length, lines, targets=0):
    """Rows of ids with a skewed distribution, so that a model has something to learn within a few steps.

    targets: length of labels that are not the ids themselves, for an encoder-decoder.
    """
    source = random.Random(7)
    with open(file, "w") as out:
        for _ in range(lines):
            ids, labels = (
                [3 + int((vocabulary - 3) * source.random() ** 4) for _ in range(count)] for count in (length, targets)
            )
            out.write(json.dumps({"input_ids": ids, "labels": labels or ids}) + "\n")


def kind_of(config):
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM


def draw_model(config, device, **options):
    """A model with random weights, drawn on the device."""
    import torch

    with torch.device(device):
        model = kind_of(config).from_config(config, **options)
    if config.is_encoder_decoder and not config.scale_decoder_outputs:
        # The head of T5 1.1 and FLAN-T5 is a matrix of its own, which transformers 5 learns from their weights alone.
        head = torch.randn_like(model.lm_head.weight) / config.d_model**0.5
        model.lm_head.weight = torch.nn.Parameter(head)
        model.all_tied_weights_keys.pop("lm_head.weight")
    return model


def write_model(folder, shape, device, layers):
    import torch
    from transformers import AutoConfig, LlamaConfig

    torch.manual_seed(1)
    config = AutoConfig.from_pretrained(shape) if shape else LlamaConfig(**SHAPE)
    if layers:
        config.num_hidden_layers = layers
    if config.is_encoder_decoder:
        config.dropout_rate = 0.0  # each side draws by its own generator
    model = draw_model(config, device, dtype=torch.bfloat16 if shape else torch.float32)
    model.save_pretrained(folder)
    return config.vocab_size


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=pathlib.Path, help="folder to write the model to")
    parser.add_argument("--config", type=pathlib.Path, help="folder of another shape; its weights are written in BF16")
    parser.add_argument("--layers", type=int, help="as many layers instead of the shape's own")
    parser.add_argument("--device", default="cpu", help="that draws the weights")
    parser.add_argument("--ids", type=pathlib.Path, help="file to write JSON lines of input_ids and labels to")
    parser.add_argument("--vocabulary", type=int, default=SHAPE["vocab_size"])
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--targets", type=int, default=0, help="length of labels other than the ids themselves")
    parser.add_argument("--lines", type=int, default=8)
    arguments = parser.parse_args()
    if arguments.model:
        arguments.vocabulary = write_model(arguments.model, arguments.config, arguments.device, arguments.layers)
    if arguments.ids:
        write_ids(arguments.ids, arguments.vocabulary, arguments.length, arguments.lines, arguments.targets)
