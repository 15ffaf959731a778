#!/usr/bin/env python3
"""Loads a run folder of `fathom train` in transformers (an adapter: in PEFT) and compares the logits with fathom's.

usage: scripts/load_in_transformers.py RUN [--ids 1,2,3] [--tolerance 1e-4]
The same ids go through transformers in FP32 and through `fathom logits`; the largest difference is given as a share of
the largest logit, and the exit status is 1 above the tolerance. Needs a Python with torch, transformers and, for
adapters, PEFT: scripts/compare_transformers makes one in .deps/peer.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path, help="output_dir of a run: a model or an adapter")
    parser.add_argument("--ids", default="1,5,9,2,7,7,3,11,30,4", help="token ids (default %(default)s)")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--fathom", default=ROOT / "build/fathom", type=pathlib.Path)
    return parser.parse_args()


def load(run):
    """The model of a run folder, as its user would load it; says what it is."""
    import torch
    from transformers import AutoModelForCausalLM

    if not (run / "adapter_config.json").exists():
        return AutoModelForCausalLM.from_pretrained(run, dtype=torch.float32), "model", []
    from peft import PeftModel

    base = pathlib.Path(json.loads((run / "adapter_config.json").read_text())["base_model_name_or_path"])
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), run)
    unused = [name for name, parameter in model.named_parameters() if ".lora_B." in name and not parameter.any()]
    if unused:
        raise SystemExit(
            f"the adapter in {run} left {len(unused)} matrices at zero, {unused[0]} first: PEFT found no "
            "weights for them, or the run did not train"
        )
    return model, f"adapter on {base}", ["--adapter", str(run)]


def logits_of_fathom(arguments, base, adapter):
    from safetensors.torch import load_file

    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "logits.safetensors"
        command = [arguments.fathom, "logits", base, *adapter, "--ids", arguments.ids, "--out", out, "dtype=float32"]
        finished = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if finished.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, command))} ended with {finished.returncode}:\n{finished.stderr}")
        tensors = load_file(out)
    if "logits" in tensors:
        return tensors["logits"].float()
    return next(iter(tensors.values())).float()


def tokenizer_note(run, text="How much memory do 7 billion parameters need in FP16?"):
    """Whether the folder's tokenizer loads too, where it has one."""
    if not list(run.glob("tokenizer*")):
        return "no tokenizer in the folder"
    from transformers import AutoTokenizer

    ids = AutoTokenizer.from_pretrained(run)(text)["input_ids"]
    return f"its tokenizer makes {len(ids)} ids of '{text}'"


def main():
    arguments = parse_arguments()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch

    model, kind, adapter = load(arguments.run)
    base = (
        json.loads((arguments.run / "adapter_config.json").read_text())["base_model_name_or_path"]
        if adapter
        else arguments.run
    )
    ids = torch.tensor([[int(number) for number in arguments.ids.split(",")]])
    with torch.no_grad():
        expected = model.eval()(input_ids=ids).logits[0].float()
    got = logits_of_fathom(arguments, base, adapter).reshape(expected.shape)
    difference = ((got - expected).abs().max() / expected.abs().max()).item()
    print(
        f"{arguments.run} ({kind}; {tokenizer_note(arguments.run)}): "
        f"{expected.shape[0]} x {expected.shape[1]} logits, standard "
        f"deviation {expected.std():.2f}; the largest difference is {difference:.1e} of the largest logit "
        f"(allowed {arguments.tolerance:.0e})"
    )
    return 0 if difference <= arguments.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
