"""What operators take on the GPU: LibTorch's one by one, and those of fathom's own steps as they come."""

import json
import pathlib

from gpu.session import Unit


def units(session):
    if session.phantom:  # which computes nothing, so that its times would say nothing
        return []
    return [
        Unit("operators/all", "operators by themselves", 90, lambda: by_themselves(session)),
        Unit("operators/within-steps", "operators within steps", 60, lambda: within_steps(session)),
    ]


def by_themselves(session):
    script = pathlib.Path(__file__).with_name("measure_operators.py")
    return json.loads(session.call([session.peer_python, script], 200))


def within_steps(session):
    """The table that `fathom doctor --calibrate` keeps for its machine."""
    return {"table": json.loads(session.call([session.fathom, "answer-operators"], 200))}
