"""Makes a checkpoint without contents, as `fathom phantom --no-weights` does, in files of a given size.

usage: make_checkpoint.py SHAPE FOLDER FILE_GB    SHAPE: a folder with config.json; FILE_GB: a file's most gigabytes

Which tensors a file has and in which order matters: weights reach a GPU in that order, and where they are quantized
there, the blocks that the caching allocator has free by then decide how large the next one's is.
"""
import pathlib
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "lib" / "phantom_gpu" / "agent"))
sys.dont_write_bytecode = True

from fathom_phantom import holes  # noqa: E402


def main(shape, folder, gigabytes):
    config = AutoConfig.from_pretrained(shape, torch_dtype=torch.bfloat16)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, torch_dtype=torch.bfloat16)
    holes.save(model, folder, f"{gigabytes}GB")


main(*sys.argv[1:])
