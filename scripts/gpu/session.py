"""What the pieces of scripts/on_gpu share: where things lie, what is found so far, and how long there still is."""

import dataclasses
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import time
from collections.abc import Callable

from compare.json_rows import json_rows

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OTHER_PLACEMENT = 7919  # of segments, where a phantom stands in for the GPU: none that is predicted with


class UnitFailed(Exception):
    """A unit did not come to its end: the reason is its result."""


class OutOfTime(Exception):
    """The session's minutes ended first: the unit has no result and is done another time."""


@dataclasses.dataclass(frozen=True)
class Unit:
    """The least that is done, or not, before the minutes end."""

    key: str  # "check/odd-full-fp32"
    title: str
    seconds: float  # that it takes on a GPU, about: it is not begun with less left
    run: Callable  # () -> what was found: "passed" is whether all was as it must be; a measurement has none


@dataclasses.dataclass
class Session:
    fathom: pathlib.Path
    work: pathlib.Path  # inputs, runs: gone afterwards
    out: pathlib.Path  # what is kept
    gpu_name: str  # in configs/gpus.yaml
    memory_bytes: int  # of the GPU
    phantom: bool  # a phantom stands in for the GPU
    environment: dict
    peer_python: str
    sources: str  # what the program was built from (machine.build_facts)
    ends_at: float  # by time.monotonic()

    def seconds_left(self):
        return self.ends_at - time.monotonic()

    def phantom_options(self, *more):
        return ["--phantom-gpu", self.gpu_name, "--gpu-memory", f"{self.memory_bytes}B", *more]

    def gpu_options(self):
        """Of `fathom train` on the GPU, or on the phantom in its place."""
        return self.phantom_options("--placement", OTHER_PLACEMENT) if self.phantom else []

    def call(self, command, limit_seconds, environment=None):
        """Runs a command within the limit and the session's minutes, and returns its standard output."""
        name = " ".join([pathlib.Path(command[0]).name, *map(str, command[1:2])])
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=ROOT,
            env=self.environment if environment is None else environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=max(1, min(limit_seconds, self.seconds_left())))
        except subprocess.TimeoutExpired as error:
            raise (
                OutOfTime() if self.seconds_left() <= 0 else UnitFailed(f"{name} took over {limit_seconds} s")
            ) from error
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        if process.returncode != 0:
            lines = [line for line in (err.strip() or out.strip()).splitlines() if not line.startswith("step ")]
            said = " / ".join(lines[-4:]).replace(f"{self.work}/", "").replace(f"{ROOT}/", "")
            raise UnitFailed(f"{name} ended with {process.returncode}: {said[-600:]}")
        return out

    def train(self, config, *more, limit_seconds=240, environment=None, options=None):
        """`fathom train` on the GPU, or as `options` say. Returns what it printed."""
        options = self.gpu_options() if options is None else options
        return self.call([self.fathom, "train", config, *options, *more], limit_seconds, environment)


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def read_steps(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [step for step in map(json.loads, filter(None, lines)) if "step_seconds" in step]


def seconds_of_a_step(steps, warm_up=2):
    """The median over the steps that are not warm-up."""
    return statistics.median(step["step_seconds"] for step in steps[warm_up:])


def figure(document, key, column):
    entry = document.get(key) or {}
    return entry.get(column) if isinstance(entry, dict) else None


class Results:
    """results.json: one record for each unit, and the sessions that made them. Kept after every unit."""

    def __init__(self, folder):
        self.file = folder / "results.json"
        document = json.loads(self.file.read_text()) if self.file.exists() else {}
        self.sessions = document.get("sessions", [])
        self.units = document.get("units", {})

    def open_session(self, facts):
        if self.sessions and self.sessions[-1]["gpu"] != facts["gpu"]:
            raise SystemExit(
                f"on_gpu: {self.file} is of another GPU, {self.sessions[-1]['gpu']['name']}; name another --out"
            )
        self.sessions.append(facts)

    def is_done(self, key, sources):
        """By this program; what failed to come to its end is tried again in another session."""
        record = self.units.get(key)
        if record is None or record["sources"] != sources:
            return False
        return "error" not in record or record["session"] == len(self.sessions) - 1

    def keep(self, unit, sources, seconds, found):
        found = {
            "title": unit.title,
            "session": len(self.sessions) - 1,
            "sources": sources,
            "seconds": round(seconds, 1),
            **found,
        }
        self.units[unit.key] = found
        self.write()

    def write(self):
        text = json_rows({"sessions": self.sessions, "units": self.units}, 2)
        staged = self.file.with_suffix(".part")
        staged.write_text(text)
        staged.replace(self.file)

    def of(self, piece):
        return {key: record for key, record in self.units.items() if key.startswith(piece + "/")}
