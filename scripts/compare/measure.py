"""Runs one training program and measures it from outside: when each step was reported, and its peak resident memory."""

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import threading
import time

POLL_SECONDS = 0.005


@dataclasses.dataclass
class Run:
    """What one run of either side showed."""

    step_seconds: list
    losses: list
    resident_bytes: int
    first_step_seconds: float  # from the start of the program until its first step was reported
    reported_at: list  # seconds since the start at which each step was reported
    summary: dict  # the program's own closing object
    metrics: list  # the objects of its metrics file

    def median_step_seconds(self, warm_up):
        return statistics.median(self.step_seconds[warm_up:])


class RunFailed(Exception):
    pass


def watch(metrics, start, stop, reported_at):
    """Notes when the lines of a file that grows appear."""
    while not metrics.exists() and not stop.is_set():
        time.sleep(POLL_SECONDS)
    seen = 0
    while not stop.is_set():
        data = metrics.read_bytes() if metrics.exists() else b""
        count = data.count(b"\n")
        reported_at.extend([time.monotonic() - start] * (count - seen))
        seen = count
        time.sleep(POLL_SECONDS)


def run(command, metrics, log, environment=None):
    """Runs a command that writes one JSON object per step to `metrics`; `log` keeps what it says."""
    metrics, log = pathlib.Path(metrics), pathlib.Path(log)
    metrics.unlink(missing_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    reported_at, stop = [], threading.Event()
    output = log.with_suffix(".out")
    with open(log, "w") as errors, open(output, "w") as out:
        start = time.monotonic()
        process = subprocess.Popen(
            [str(part) for part in command], stdout=out, stderr=errors, env={**os.environ, **(environment or {})}
        )
        watcher = threading.Thread(target=watch, args=(metrics, start, stop, reported_at))
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        time.sleep(4 * POLL_SECONDS)
        stop.set()
        watcher.join()
    if process.returncode != 0:
        raise RunFailed(
            f"{' '.join(map(str, command))}\nended with {process.returncode}; the end of {log}:\n"
            + "".join(log.read_text(errors="replace").splitlines(keepends=True)[-15:])
        )
    steps = [json.loads(line) for line in metrics.read_text().splitlines() if line]
    steps = [step for step in steps if "loss" in step and "step_seconds" in step]
    if not steps:
        raise RunFailed(f"{metrics} holds no step with its loss and step_seconds; see {log}")
    return Run(
        [step["step_seconds"] for step in steps],
        [step["loss"] for step in steps],
        usage.ru_maxrss * 1024,
        reported_at[0] if reported_at else float("nan"),
        reported_at,
        last_object(output),
        steps,
    )


def last_object(file):
    """The last line of a file that is a JSON object, or an empty one."""
    for line in reversed(file.read_text(errors="replace").splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except json.JSONDecodeError:
                continue
    return {}


def read_memory(file):
    """Peak of live bytes and of kernel scratch that fathom measured, from a memory.json."""
    document = json.loads(pathlib.Path(file).read_text())
    scratch = document.get("kernel_scratch") or 0
    if isinstance(scratch, dict):
        scratch = scratch.get("measured") or 0
    return {"peak": document["peak"]["measured"], "kernel_scratch": scratch}
