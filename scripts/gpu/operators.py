"""What LibTorch's operators take on the GPU, one by one: the tables from which the time of a step can be told."""

import json
import pathlib

from gpu.session import Unit


def units(session):
    return [Unit("operators/all", "operators by themselves", 90, lambda: run(session))]


def run(session):
    """A phantom computes nothing, so that its times would say nothing."""
    if session.phantom:
        return {}
    script = pathlib.Path(__file__).with_name("measure_operators.py")
    return json.loads(session.call([session.peer_python, script], 200))
