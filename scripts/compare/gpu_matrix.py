"""The GPU check's twenty configurations: all are predicted first, then run, then held against the predictions.

A prediction is the run itself on the phantom GPU, once for each placement of segments: its trace of requests, the bytes
of every component and phase, and the range of allocated and reserved bytes. Afterwards the real run's segments are
replayed: a phantom run that is handed the same addresses must end with the same allocated and reserved bytes.
"""

import concurrent.futures
import hashlib
import json
import math
import os
import shutil
import statistics
import subprocess
import time

from compare import gpu_trace
from compare.gpu_cases import write_config

OTHER_PLACEMENT = 7919  # of the phantom that stands in for the GPU: none that is predicted with


class CommandFailed(Exception):
    pass


def call(command, log, environment, limit_seconds=300):
    """Runs a command; its standard output comes back, both streams stay in `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    try:
        finished = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, env=environment, timeout=limit_seconds
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(f"{command[1]} took longer than {limit_seconds} s") from error
    log.write_text(
        f"{' '.join(map(str, command))}\n{finished.stdout}\n{finished.stderr}\n"
        f"exit {finished.returncode} after {time.monotonic() - start:.1f} s\n"
    )
    if finished.returncode != 0:
        tail = " / ".join(finished.stderr.strip().splitlines()[-2:])
        raise CommandFailed(f"{command[1]} ended with {finished.returncode}: {tail}")
    return finished.stdout


def read_steps(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [step for step in map(json.loads, filter(None, lines)) if "step_seconds" in step]


def tokens_per_second(steps, warm_up=2):
    """The median over the steps that are not warm-up; 0 where a phantom ran (its time says nothing)."""
    rates = [step["tokens_per_second"] for step in steps[warm_up:]]
    return statistics.median(rates) if rates else 0.0


def figure(document, key, column):
    entry = document.get(key) or {}
    return entry.get(column) if isinstance(entry, dict) else None


# ---- one run ----


def play(case, check, tag, options, allocator):
    """Trains the case in a folder of its own; a case that resumes makes two processes. Their memory.json and traces."""
    run = check.work / f"{case.name}-{tag}"
    shutil.rmtree(run, ignore_errors=True)
    config = write_config(case, check.work, run)
    environment = {**check.environment, "PYTORCH_ALLOC_CONF": allocator} if allocator else check.environment
    played = []
    for part in range(2 if case.resume else 1):
        command = [check.fathom, "train", config, "--trace", check.work / f"{run.name}-{part}.trace", *options(part)]
        if part == 1:
            shutil.rmtree(run / "checkpoint-6")
            command.append("resume_from_checkpoint=auto")
        call(command, check.logs / f"{case.name}-{tag}-{part}.log", environment)
        played.append((json.loads((run / "memory.json").read_text()), check.work / f"{run.name}-{part}.trace"))
    return played, run


def phantom_options(check, *more):
    return ["--phantom-gpu", check.gpu_name, "--gpu-memory", f"{check.memory_bytes}B", *more]


def outcome(memory):
    """What a run measured, as the predictions keep it."""
    return {
        "requested": figure(memory, "peak", "measured"),
        "allocated": figure(memory, "allocated", "measured"),
        "reserved": figure(memory, "reserved", "measured"),
        "components": {name: figure(memory["components"], name, "measured") for name in memory["components"]},
        "phases": {name: figure(phase, "peak", "measured") for name, phase in memory["phases"].items()},
    }


# ---- predictions ----


def near_full_share(case, check):
    """A limit between what the case asks for and what it would reserve with plenty, so that cached memory must be given
    back; the least such limit, in steps of an eighth, with which the phantom run ends."""
    (memory, _), *_ = play(case, check, "plenty", lambda part: phantom_options(check), case.allocator)[0]
    least, most = figure(memory, "allocated", "measured"), figure(memory, "reserved", "measured")
    for eighths in range(1, 9):
        limit = least + (most - least) * eighths // 8
        share = f"per_process_memory_fraction:{math.ceil(1e9 * limit / check.memory_bytes) / 1e9:.9f}"
        share = f"{case.allocator},{share}" if case.allocator else share
        try:
            play(case, check, "limit", lambda part: phantom_options(check), share)
            return share
        except CommandFailed:
            continue
    raise CommandFailed("no limit below what the run reserves lets it end")


def predict(case, check):
    """The phantom's runs, folded into one prediction for each process of the case."""
    allocator = near_full_share(case, check) if case.near_full else case.allocator
    parts = []
    for placement in range(check.placements):
        played, run = play(
            case,
            check,
            f"placement-{placement}",
            lambda part, placement=placement: phantom_options(check, "--placement", placement),
            allocator,
        )
        for part, (memory, trace) in enumerate(played):
            seen, blocks = outcome(memory), gpu_trace.digest(gpu_trace.read(trace).blocks)
            if placement == 0:
                plan = {name: figure(memory, name, "range") for name in ("allocated", "reserved")}
                ranges = {name: [seen[name], seen[name]] for name in ("allocated", "reserved")}
                parts.append({**seen, "trace_sha256": blocks, "ranges": ranges, "plan": plan, "trace": str(trace)})
                continue
            prediction = parts[part]
            if blocks != prediction["trace_sha256"]:
                raise CommandFailed(f"placement {placement} asks for other blocks than placement 0")
            for name, bounds in prediction["ranges"].items():
                prediction["ranges"][name] = [min(bounds[0], seen[name]), max(bounds[1], seen[name])]
            os.remove(trace)
        shutil.rmtree(run)
    return {"case": case.name, "title": case.title, "allocator": allocator, "parts": parts}


def predict_all(cases, check, say):
    """Every prediction, before anything runs on the GPU: written to predictions.json, whose SHA-256 comes back too."""

    def one(case):
        try:
            prediction = predict(case, check)
        except (CommandFailed, KeyError, ValueError, OSError) as error:
            prediction = {"case": case.name, "title": case.title, "error": f"{type(error).__name__}: {error}"}
        say(f"predicted {case.name}: {prediction.get('error', str(len(prediction.get('parts', []))) + ' runs')}")
        return prediction

    with concurrent.futures.ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 2) // 2))) as pool:
        predictions = list(pool.map(one, cases))
    kept = [
        {
            **prediction,
            "parts": [{k: v for k, v in part.items() if k != "trace"} for part in prediction.get("parts", [])],
        }
        for prediction in predictions
    ]
    text = json.dumps(kept, indent=1) + "\n"
    (check.out / "predictions.json").write_text(text)
    return predictions, hashlib.sha256(text.encode()).hexdigest()


# ---- the real runs ----


def hold(prediction, memory, trace):
    """One process of a case against its prediction: what is wrong, in words."""
    seen, wrong = outcome(memory), []
    predicted, measured = gpu_trace.read(prediction["trace"]), gpu_trace.read(trace)
    if difference := gpu_trace.first_difference(predicted.blocks, measured.blocks):
        wrong.append(difference)
    if seen["requested"] != prediction["requested"]:
        wrong.append(f"requested {seen['requested'] - prediction['requested']:+,} bytes")
    for kind in ("components", "phases"):
        for name, before in prediction[kind].items():
            if seen[kind].get(name) != before:
                wrong.append(f"{name}: {before:,} predicted, {seen[kind].get(name)} measured")
    for name, (lowest, highest) in prediction["ranges"].items():
        if not lowest <= seen[name] <= highest:
            wrong.append(f"{name} {seen[name]:,} is outside {lowest:,} to {highest:,}")
    return {**seen, "events": len(measured.all), "wrong": wrong}


def replay(case, check, played, allocator):
    """The run on a phantom that hands out the real run's addresses: what differs, in words."""
    traces = [trace for _, trace in played]
    replayed, run = play(
        case, check, "replay", lambda part: phantom_options(check, "--segments", traces[part]), allocator
    )
    wrong = []
    for part, ((real, real_trace), (again, again_trace)) in enumerate(zip(played, replayed, strict=True)):
        if difference := gpu_trace.first_difference(gpu_trace.read(again_trace).all, gpu_trace.read(real_trace).all):
            wrong.append(f"replayed process {part}: {difference}")
        for name in ("allocated", "reserved"):
            if difference := outcome(again)[name] - outcome(real)[name]:
                wrong.append(f"replayed process {part}: {name} {difference:+,} bytes")
        os.remove(again_trace)
    shutil.rmtree(run)
    return wrong


def run_case(case, prediction, check):
    """One configuration on the GPU, each process fresh, and the verdict."""
    result = {"case": case.name, "title": case.title}
    try:
        if "error" in prediction:
            raise CommandFailed("not predicted: " + prediction["error"])
        options = phantom_options(check, "--placement", OTHER_PLACEMENT) if check.phantom else []
        played, run = play(case, check, "real", lambda part: options, prediction["allocator"])
        pairs = zip(prediction["parts"], played, strict=True)
        held = [hold(part, memory, trace) for part, (memory, trace) in pairs]
        steps = read_steps(run)
        result.update(
            parts=[
                {**seen, "predicted": {name: part[name] for name in ("requested", "ranges", "plan")}}
                for part, seen in zip(prediction["parts"], held, strict=True)
            ],
            device=figure(played[-1][0], "device", "measured"),
            losses=[step["loss"] for step in steps],
            tokens_per_second=None if check.phantom else tokens_per_second(steps),
            replay=replay(case, check, played, prediction["allocator"]),
        )
        result["wrong"] = [text for seen in held for text in seen["wrong"]] + result["replay"]
        result["passed"] = not result["wrong"]
    except (CommandFailed, KeyError, ValueError, OSError) as error:
        result.update(passed=False, error=f"{type(error).__name__}: {error}")
    return result
