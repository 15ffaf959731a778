"""Weights that are not there: transformers reads a model's folder as if they were.

from_pretrained of a folder with a config.json and without weights reads another one in its place, which has the files
of that one, and checkpoint files as transformers saves them: with true names, shapes, and order, and holes where
numbers would lie. They take no room on a disk, and what the model takes of a GPU is the same, for it decides nothing by
weights.
"""
import copy
import functools
import json
import os
import struct
import tempfile

import torch

MOST_BYTES = "5GB"  # of a file; what transformers has saved in up to version 4, and most published models are in
TYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.float64: "F64", torch.int64: "I64",
         torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
         torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2"}
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".index.json")


def write_holes(tensors, path, metadata=None):
    """As safetensors.torch.save_file, without the numbers."""
    head, end = {"__metadata__": metadata} if metadata else {}, 0
    for name, tensor in sorted(tensors.items()):
        begin, end = end, end + tensor.nbytes
        head[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def save(model, folder, most_bytes=MOST_BYTES):
    """A checkpoint of holes of a model of transformers on the device meta, which takes as little room as memory."""
    from transformers import modeling_utils
    # Version 4 tells tied weights by their addresses, in pages that nobody touches. Version 5 splits and joins weights
    # into those that are published, which would.
    if not hasattr(modeling_utils, "revert_weight_conversion"):
        model.to_empty(device="cpu")
    model.tie_weights()
    written = modeling_utils.safe_save_file
    modeling_utils.safe_save_file = write_holes
    try:
        model.save_pretrained(folder, max_shard_size=most_bytes)
    finally:
        modeling_utils.safe_save_file = written


def lacks_weights(folder):
    names = os.listdir(folder) if os.path.isdir(folder) else ()
    return "config.json" in names and not any(name.endswith(WEIGHTS) for name in names)


def attach(place):
    """place: the folder that the others are made in. Nothing is done where there is no transformers."""
    try:
        from transformers import PreTrainedModel
    except ImportError:
        return
    original = PreTrainedModel.from_pretrained.__func__
    made = {}  # (class, folder, configuration) -> the other one

    def other(model_class, folder, own, config):
        if getattr(own, "quantization_config", None):
            raise RuntimeError(f"fathom phantom: {folder} is of quantized weights, and --no-weights makes none; "
                               "give it their files, or the config.json of the model as it was before")
        dtype = getattr(own, "dtype", None) or getattr(own, "torch_dtype", None) or torch.float32
        with torch.device("meta"):
            model = model_class(copy.deepcopy(config)).to(dtype)
        path = tempfile.mkdtemp(dir=place)
        save(model, path)
        for name in os.listdir(folder):
            if not os.path.exists(os.path.join(path, name)):
                os.symlink(os.path.abspath(os.path.join(folder, name)), os.path.join(path, name))
        return path

    @functools.wraps(original)
    def from_pretrained(model_class, folder, *args, **kwargs):
        if isinstance(folder, (str, os.PathLike)) and lacks_weights(folder):
            own = model_class.config_class.from_pretrained(folder)
            config = kwargs.get("config") or own
            if isinstance(config, (str, os.PathLike)):
                config = model_class.config_class.from_pretrained(config)
            key = (model_class, os.path.abspath(folder), config.to_json_string())
            if key not in made:
                made[key] = other(model_class, folder, own, config)
            model = original(model_class, made[key], *args, **kwargs)
            model.name_or_path = model.config._name_or_path = os.fspath(folder)
            return model
        return original(model_class, folder, *args, **kwargs)

    PreTrainedModel.from_pretrained = classmethod(from_pretrained)
