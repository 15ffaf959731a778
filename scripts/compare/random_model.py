"""Llama folders with random weights in BF16, of any size, the same at every call, written piece by piece by Python alone."""

import json
import random

SHARD_BYTES = 500_000_000
PIECE = 1 << 22


def projections(config):
    """Names and shapes of a layer's matrices."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim") or width // config["num_attention_heads"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    return {
        "self_attn.q_proj": (queries, width),
        "self_attn.k_proj": (keys, width),
        "self_attn.v_proj": (keys, width),
        "self_attn.o_proj": (width, queries),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
    }


def tensors(config):
    """Names and shapes of all weights."""
    width = config["hidden_size"]
    yield "model.embed_tokens.weight", (config["vocab_size"], width)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for name, shape in projections(config).items():
            yield f"{prefix}{name}.weight", shape
        yield f"{prefix}input_layernorm.weight", (width,)
        yield f"{prefix}post_attention_layernorm.weight", (width,)
    yield "model.norm.weight", (width,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], width)


def count(shape):
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def random_bf16(numbers, elements):
    """Numbers of either sign with magnitudes from 2^-7 to 2^-5, whose upper byte is 0x3C or 0xBC."""
    upper = bytes(0xBC if byte % 2 else 0x3C for byte in range(256))
    data = bytearray(2 * elements)
    data[0::2] = numbers.randbytes(elements)
    data[1::2] = numbers.randbytes(elements).translate(upper)
    return data


def write_shard(path, shard, numbers):
    header, offset = {}, 0
    for name, shape in shard:
        end = offset + 2 * count(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, shape in shard:
            if len(shape) == 1:
                file.write(b"\x80\x3f" * count(shape))
                continue
            for first in range(0, count(shape), PIECE):  # a process starts with the memory of the one that starts it
                file.write(random_bf16(numbers, min(PIECE, count(shape) - first)))


def make_model(folder, config):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    numbers = random.Random(1)
    shards = [[]]
    for name, shape in tensors(config):
        if shards[-1] and sum(2 * count(each) for _, each in shards[-1]) + 2 * count(shape) > SHARD_BYTES:
            shards.append([])
        shards[-1].append((name, shape))
    index = {"metadata": {}, "weight_map": {}}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_shard(folder / name, shard, numbers)
        index["weight_map"] |= {tensor: name for tensor, _ in shard}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
