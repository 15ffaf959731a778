"""Makes a checkpoint without contents: files of safetensors with true heads, and holes where the weights would lie.

usage: make_checkpoint.py SHAPE FOLDER FILE_GB    SHAPE: a folder with config.json; FILE_GB: a file's most gigabytes

Which tensors a file has and in which order matters: weights reach a GPU in that order, and where they are quantized
there, the blocks that the caching allocator has free by then decide how large the next one's is. It is the order that
transformers saves in: files of at most 10 GB, later 5 GB, in the order of the module, names sorted within a file.
"""
import json
import pathlib
import struct
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM


def files_of(tensors, most_bytes):
    files, size = [{}], 0
    for name, tensor in tensors.items():
        if files[-1] and size + tensor.nbytes > most_bytes:
            files.append({})
            size = 0
        files[-1][name] = tensor
        size += tensor.nbytes
    return files


def write_holes(path, tensors):
    head, end = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in sorted(tensors.items()):
        head[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [end, end + tensor.nbytes]}
        end += tensor.nbytes
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def main(shape, folder, most_bytes):
    config = AutoConfig.from_pretrained(shape, torch_dtype=torch.bfloat16)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, torch_dtype=torch.bfloat16)
    tensors = model.state_dict()
    if config.tie_word_embeddings:
        del tensors["lm_head.weight"]
    folder.mkdir(parents=True, exist_ok=True)
    config.architectures = [type(model).__name__]
    config.save_pretrained(folder)
    files, places = files_of(tensors, most_bytes), {}
    for number, file in enumerate(files, 1):
        name = "model.safetensors" if len(files) == 1 else f"model-{number:05}-of-{len(files):05}.safetensors"
        write_holes(folder / name, file)
        places.update(dict.fromkeys(file, name))
    if len(files) > 1:
        index = {"metadata": {"total_size": sum(each.nbytes for each in tensors.values())}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))


main(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]) * 10 ** 9)
