#!/usr/bin/env python3
"""Writes tests/optim/golden/adamw_8bit.safetensors: what bitsandbytes' AdamW8bit makes of given gradients.

usage: scripts/golden/adamw_8bit.py [file]     needs torch, bitsandbytes, safetensors; written with 2.11 and 0.50.2.

Its CPU backend, but for the quantization, which is that of its default backend (scripts/golden/quant.py says why). Four
steps; weight decay on matrices alone. Gradients are of very different size within a block, and some are zero. Tensors:
"initial.<parameter>", "gradient.<step>.<parameter>" (in BF16, to be widened), "<state>.<step>.<parameter>" with the
states parameter, exp_avg, exp_avg_scale, exp_avg_sq, exp_avg_sq_scale; "rates".
"""
import pathlib
import sys

import bitsandbytes
import torch
from bitsandbytes.backends.cpu import ops
from safetensors.torch import save_file

STEPS, DECAY = 4, 0.1
KEPT = (0, 3)  # steps after which everything is written
SHAPES = {"whole": (24, 256), "ragged": (59, 71), "small": (16, 16), "vector": (37,)}
RATES = torch.tensor([1e-2, 3e-2, 2e-2, 1e-2], dtype=torch.float64)
DEFAULT = torch._C.DispatchKeySet(torch._C.DispatchKey.CompositeExplicitAutograd)
STATES = {"state1": "exp_avg", "absmax1": "exp_avg_scale", "state2": "exp_avg_sq", "absmax2": "exp_avg_sq_scale"}


def quantize(values, code, absmax, codes, blocksize):
    made, scales = torch.ops.bitsandbytes.quantize_blockwise.default.redispatch(DEFAULT, values, code, blocksize)
    codes.copy_(made)
    absmax.copy_(scales)


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                       pathlib.Path(__file__).resolve().parents[2] / "tests/optim/golden/adamw_8bit.safetensors")
    ops._quant_blockwise_fp32_direct = quantize
    torch.manual_seed(6)
    parameters = {name: torch.nn.Parameter(torch.randn(shape)) for name, shape in SHAPES.items()}
    tensors = {"rates": RATES}
    tensors |= {f"initial.{name}": value.detach().clone() for name, value in parameters.items()}
    optimizer = bitsandbytes.optim.AdamW8bit([
        dict(params=[p for p in parameters.values() if p.dim() > 1], weight_decay=DECAY),
        dict(params=[p for p in parameters.values() if p.dim() == 1], weight_decay=0.0),
    ], lr=1.0, betas=(0.8, 0.95), eps=1e-6)
    for step in range(STEPS):
        for name, parameter in parameters.items():
            gradient = torch.randn(parameter.shape) * 0.02 * (step + 0.5)
            if parameter.dim() == 2:
                gradient *= torch.logspace(-3, 1, parameter.shape[1])
                gradient[3] = 0
            tensors[f"gradient.{step}.{name}"] = gradient.bfloat16()
            parameter.grad = gradient.bfloat16().float()
        for group in optimizer.param_groups:
            group["lr"] = RATES[step].item()
        optimizer.step()
        if step not in KEPT:
            continue
        for name, parameter in parameters.items():
            tensors[f"parameter.{step}.{name}"] = parameter.detach().clone()
            for theirs, ours in STATES.items():
                if theirs in optimizer.state[parameter]:
                    tensors[f"{ours}.{step}.{name}"] = optimizer.state[parameter][theirs].clone()
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, out)
    print(f"{out}: {len(tensors)} tensors, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
