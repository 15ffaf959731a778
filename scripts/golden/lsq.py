#!/usr/bin/env python3
"""Writes tests/ops/golden/lsq.json: fake quantization and its gradients as torch's autograd makes them of LSQ's formulas
(Esser et al. 2019, arXiv 1902.08153), with steps that are learned as logarithms.

usage: scripts/golden/lsq.py [file]     needs torch; written with 2.11.
"""
import json
import pathlib
import sys

import torch

# rows, columns, group, lowest and highest code, step of the codes relative to the weights' spread
CASES = [
    (3, 64, 64, -127, 127, 0.02),
    (2, 64, 64, -127, 127, 0.005),  # many beyond the codes
    (4, 64, 32, -8, 7, 0.3),
    (3, 128, 64, -8, 7, 0.1),
    (2, 128, 128, -8, 7, 1.5),  # few codes in use
]


def round_straight_through(x):
    return x + (x.round() - x).detach()


def fake_quantize(weight, log_steps, group, lowest, highest):
    steps = log_steps.exp().unsqueeze(-1)
    places = weight.view(weight.shape[0], -1, group) / steps
    return (round_straight_through(places.clamp(lowest, highest)) * steps).view_as(weight)


def case(rows, columns, group, lowest, highest, step):
    weight = torch.randn(rows, columns).requires_grad_()
    log_steps = (torch.randn(rows, columns // group) * 0.2 + torch.tensor(step).log()).requires_grad_()
    upstream = torch.randn(rows, columns)
    wide = [each.detach().double().requires_grad_() for each in (weight, log_steps)]
    out = fake_quantize(*wide, group, lowest, highest)
    out.backward(upstream.double())
    return {"rows": rows, "columns": columns, "group": group, "lowest": lowest, "weight": weight.flatten().tolist(),
            "log_steps": log_steps.flatten().tolist(), "upstream": upstream.flatten().tolist(),
            "out": out.flatten().tolist(), "weight_gradient": wide[0].grad.flatten().tolist(),
            "log_step_gradient": wide[1].grad.flatten().tolist()}


def main():
    repository = pathlib.Path(__file__).resolve().parents[2]
    default = repository / "tests" / "ops" / "golden" / "lsq.json"
    file = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    torch.manual_seed(11)
    file.write_text("[" + ",\n".join(json.dumps(case(*each)) for each in CASES) + "]\n")


if __name__ == "__main__":
    main()
