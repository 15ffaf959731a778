#!/usr/bin/env python3
"""Writes tests/optim/golden/optimizers.safetensors: what torch's and transformers' optimizers make of given gradients.

usage: scripts/golden/optimizers.py [file]     needs torch, transformers, safetensors; written with 2.11 and 5.23.

AdamW and SGD are torch.optim's, Adafactor is transformers' as its Trainer configures it (scale_parameter and
relative_step off); Lion is written out below from the paper (Chen et al. 2023, arXiv 2302.06675, algorithm 2). Five
steps with torch's gradient clipping in FP32 and with BF16 parameters without; weight decay on matrices alone. Tensors:
"<type>.initial.<parameter>", "<type>.gradient.<step>.<parameter>", "<type>.<optimizer>.<step>.<parameter>", "rates".
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers.optimization import Adafactor

STEPS, DECAY = 5, 0.1
MAX_NORM = {"f32": 3.0, "bf16": float("inf")}  # clipped BF16 gradients would be rounded again
KEPT = (1, 4)  # steps after which the parameters are written
SHAPES = {"wide": (2, 1100), "tall": (70, 5), "square": (16, 16), "vector": (37,)}
RATES = torch.tensor([1e-2, 3e-2, 2e-2, 1e-2, 5e-3], dtype=torch.float64)


class Lion(torch.optim.Optimizer):
    """The paper's update, in FP32 whatever the parameter's type, rounded once."""

    def __init__(self, groups, lr=0.0, betas=(0.9, 0.99)):
        super().__init__(groups, dict(lr=lr, betas=betas, weight_decay=0.0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for parameter in group["params"]:
                momentum = self.state[parameter].setdefault("m", torch.zeros_like(parameter, dtype=torch.float32))
                gradient = parameter.grad.float()
                change = torch.sign(beta1 * momentum + (1 - beta1) * gradient)
                change = change + group["weight_decay"] * parameter.float()
                parameter.copy_(parameter.float() - group["lr"] * change)
                momentum.copy_(beta2 * momentum + (1 - beta2) * gradient)


class Sgd(torch.optim.SGD):
    """torch's, on FP32 copies that are rounded after each step: on BF16 itself it rounds the decayed gradient too."""

    @torch.no_grad()
    def step(self):
        stored = [parameter for group in self.param_groups for parameter in group["params"]]
        for group in self.param_groups:
            group["params"] = [parameter.float() for parameter in group["params"]]
        wide = [parameter for group in self.param_groups for parameter in group["params"]]
        for parameter, copy in zip(stored, wide):
            copy.grad = parameter.grad.float()
        super().step()
        for parameter, copy in zip(stored, wide):
            parameter.copy_(copy)
        for group in self.param_groups:
            group["params"] = [stored.pop(0) for _ in group["params"]]


OPTIMIZERS = {
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=1.0, betas=(0.8, 0.95), eps=1e-6, fused=True),
    "sgd": lambda groups: Sgd(groups, lr=1.0),
    "adafactor": lambda groups: Adafactor(groups, lr=1.0, scale_parameter=False, relative_step=False),
    "lion": lambda groups: Lion(groups, betas=(0.8, 0.95)),
}


def play(make, initial, gradients, max_norm):
    """The parameters after each step."""
    parameters = {name: torch.nn.Parameter(value.clone()) for name, value in initial.items()}
    optimizer = make([
        dict(params=[p for p in parameters.values() if p.dim() > 1], weight_decay=DECAY),
        dict(params=[p for p in parameters.values() if p.dim() == 1], weight_decay=0.0),
    ])
    after = []
    for step in range(STEPS):
        for name, parameter in parameters.items():
            parameter.grad = gradients[step][name].clone()
        torch.nn.utils.clip_grad_norm_(list(parameters.values()), max_norm)
        for group in optimizer.param_groups:
            group["lr"] = RATES[step].item()
        optimizer.step()
        after.append({name: parameter.detach().clone() for name, parameter in parameters.items()})
    return after


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                       pathlib.Path(__file__).resolve().parents[2] / "tests/optim/golden/optimizers.safetensors")
    torch.manual_seed(5)
    tensors = {"rates": RATES}
    for label, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        initial = {name: torch.randn(shape).to(dtype) for name, shape in SHAPES.items()}
        # Norms on both sides of the limit; rows of very different size, and one of zeros.
        gradients = []
        for step in range(STEPS):
            values = {name: torch.randn(shape) * 0.02 * (step + 0.5) for name, shape in SHAPES.items()}
            values["tall"] *= torch.logspace(-4, 1, 70).unsqueeze(1)
            values["tall"][3] = 0
            gradients.append({name: value.to(dtype) for name, value in values.items()})
        for name, value in initial.items():
            tensors[f"{label}.initial.{name}"] = value
        for step, values in enumerate(gradients):
            tensors |= {f"{label}.gradient.{step}.{name}": value for name, value in values.items()}
        for optimizer, make in OPTIMIZERS.items():
            after = play(make, initial, gradients, MAX_NORM[label])
            for step in KEPT:
                tensors |= {f"{label}.{optimizer}.{step}.{name}": value for name, value in after[step].items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, out)
    print(f"{out}: {len(tensors)} tensors, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
