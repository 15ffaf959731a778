"""The configurations of cases.py: all are predicted first, then run on the GPU, then held against the predictions.

A prediction is the run itself on the phantom GPU, once for each placement of segments: the hash of its trace, the bytes of
every component and phase, and the range of allocated and reserved bytes. Afterwards the real run's segments are replayed: a
phantom run that is handed the same addresses must end with the same allocated and reserved bytes.

predictions.json can be older than the session on the GPU: those that another machine made with the same program, in
benchmarks/gpu-phantom-<gpu>, are taken, so that the history of the repository shows which came first.
"""

import concurrent.futures
import hashlib
import json
import math
import os
import shutil

from gpu import trace
from gpu.cases import CASES, FIXED, write_config
from gpu.session import ROOT, OutOfTime, Unit, UnitFailed, figure, read_steps, seconds_of_a_step

PLACEMENTS, PLACEMENTS_OF_EXPANDABLE = 48, 2  # an expandable segment leaves no address to choose


def units(session):
    predict = Unit("check/predictions", "all predictions, before any run", 20, lambda: predict_all(session))
    runs = [Unit(f"check/{c.name}", c.title, 12, lambda c=c: run_case(c, session)) for c in CASES]
    return [predict, *runs]


# ---- one run ----


def play(case, session, tag, options, allocator):
    """Trains the case in a folder of its own; a case that resumes makes two processes. Their memory.json and traces."""
    run = session.work / f"{case.name}-{tag}"
    shutil.rmtree(run, ignore_errors=True)
    config = write_config(case, session.work, run)
    environment = {**session.environment, "PYTORCH_ALLOC_CONF": allocator} if allocator else session.environment
    played = []
    for part in range(2 if case.resume else 1):
        file = session.work / f"{run.name}-{part}.trace"
        more = ["--trace", file]
        if part == 1:
            shutil.rmtree(run / "checkpoint-6")
            more.append("resume_from_checkpoint=auto")
        session.train(config, *more, environment=environment, options=options(part))
        played.append((json.loads((run / "memory.json").read_text()), file))
    return played, run


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


def near_full_share(case, session):
    """A limit between what the case asks for and what it would reserve with plenty, so that cached memory must be given
    back; the least such limit, in steps of an eighth, with which the phantom run ends."""
    (memory, _), *_ = play(case, session, "plenty", lambda part: session.phantom_options(), case.allocator)[0]
    least, most = figure(memory, "allocated", "measured"), figure(memory, "reserved", "measured")
    for eighths in range(1, 9):
        limit = least + (most - least) * eighths // 8
        share = f"per_process_memory_fraction:{math.ceil(1e9 * limit / session.memory_bytes) / 1e9:.9f}"
        share = f"{case.allocator},{share}" if case.allocator else share
        try:
            play(case, session, "limit", lambda part: session.phantom_options(), share)
            return share
        except UnitFailed:
            continue
    raise UnitFailed("no limit below what the run reserves lets it end")


def predict(case, session):
    """The phantom's runs, folded into one prediction for each process of the case."""
    allocator = near_full_share(case, session) if case.near_full else case.allocator
    parts = []
    for placement in range(PLACEMENTS if FIXED in allocator else PLACEMENTS_OF_EXPANDABLE):
        options = session.phantom_options("--placement", placement)
        played, run = play(case, session, f"placement-{placement}", lambda part, options=options: options, allocator)
        for part, (memory, file) in enumerate(played):
            seen, blocks = outcome(memory), trace.digest(trace.read(file).blocks)
            os.remove(file)
            if placement == 0:
                plan = {name: figure(memory, name, "range") for name in ("allocated", "reserved")}
                ranges = {name: [seen[name], seen[name]] for name in ("allocated", "reserved")}
                parts.append({**seen, "trace_sha256": blocks, "ranges": ranges, "plan": plan})
                continue
            if blocks != parts[part]["trace_sha256"]:
                raise UnitFailed(f"placement {placement} asks for other blocks than placement 0")
            for name, bounds in parts[part]["ranges"].items():
                parts[part]["ranges"][name] = [min(bounds[0], seen[name]), max(bounds[1], seen[name])]
        shutil.rmtree(run)
    return {
        "case": case.name,
        "sources": session.sources,
        "memory_bytes": session.memory_bytes,
        "allocator": allocator,
        "parts": parts,
    }


def known_predictions(session):
    """By case: those of this program, from the results' folder, else from the one that a phantom's check wrote."""
    known = {}
    for folder in (ROOT / f"benchmarks/gpu-phantom-{session.gpu_name.lower()}", session.out):
        file = folder / "predictions.json"
        for prediction in json.loads(file.read_text()) if file.exists() else []:
            case = next((case for case in CASES if case.name == prediction["case"]), None)
            if case is None or prediction.get("sources") != session.sources:
                continue
            if not case.near_full or prediction["memory_bytes"] == session.memory_bytes:
                known[case.name] = prediction
    return known


def predict_all(session):
    """Makes the predictions that there are not; all are in predictions.json when this returns."""
    known = known_predictions(session)
    missing = [case for case in CASES if case.name not in known]
    wrong = []

    def one(case):
        try:
            return predict(case, session)
        except (UnitFailed, KeyError, ValueError, OSError) as error:
            wrong.append(f"{case.name}: {type(error).__name__}: {error}")

    try:
        with concurrent.futures.ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 2) // 2))) as pool:
            for prediction in pool.map(one, missing):
                if prediction:
                    known[prediction["case"]] = prediction
    finally:
        kept = [known[case.name] for case in CASES if case.name in known]
        text = json.dumps(kept, indent=1) + "\n"
        (session.out / "predictions.json").write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"passed": not wrong, "wrong": wrong, "sha256": digest, "older": len(CASES) - len(missing)}


# ---- the GPU's runs ----


def hold(prediction, memory, file, explain):
    """One process of a case against its prediction: what is wrong, in words. explain(): where the trace differs."""
    seen, wrong, measured = outcome(memory), [], trace.read(file)
    digest = trace.digest(measured.blocks)
    if digest != prediction["trace_sha256"]:
        wrong.append(explain() or "the trace is another, and the phantom's is not the predicted one any more")
    if seen["requested"] != prediction["requested"]:
        wrong.append(f"requested {seen['requested'] - prediction['requested']:+,} bytes")
    for kind in ("components", "phases"):
        for name, before in prediction[kind].items():
            if seen[kind].get(name) != before:
                wrong.append(f"{name}: {before:,} predicted, {seen[kind].get(name)} measured")
    for name, (lowest, highest) in prediction["ranges"].items():
        if not lowest <= seen[name] <= highest:
            wrong.append(f"{name} {seen[name]:,} is outside {lowest:,} to {highest:,}")
    driver = {name: figure(memory, "device", name) for name in ("dry_run", "measured")}
    return {**seen, "driver": driver, "trace_sha256": digest, "events": len(measured.all), "wrong": wrong}


def replay(case, session, played, allocator):
    """The run on a phantom that hands out the real run's addresses: what differs, in words."""
    traces = [file for _, file in played]
    replayed, run = play(
        case, session, "replay", lambda part: session.phantom_options("--segments", traces[part]), allocator
    )
    wrong = []
    for part, ((real, real_trace), (again, again_trace)) in enumerate(zip(played, replayed, strict=True)):
        if difference := trace.first_difference(trace.read(again_trace).all, trace.read(real_trace).all):
            wrong.append(f"replayed process {part}: {difference}")
        for name in ("allocated", "reserved"):
            if difference := outcome(again)[name] - outcome(real)[name]:
                wrong.append(f"replayed process {part}: {name} {difference:+,} bytes")
    shutil.rmtree(run)
    return wrong


def run_case(case, session):
    """One configuration on the GPU, each process fresh, and the verdict."""
    prediction = known_predictions(session).get(case.name)
    if prediction is None:
        raise OutOfTime if session.seconds_left() <= 0 else UnitFailed("not predicted")
    allocator = prediction["allocator"]
    played, run = play(case, session, "real", lambda part: session.gpu_options(), allocator)

    def explain(part):
        predicted, _ = play(case, session, "again", lambda part: session.phantom_options(), allocator)
        return trace.first_difference(trace.read(predicted[part][1]).blocks, trace.read(played[part][1]).blocks)

    pairs = zip(prediction["parts"], played, strict=True)
    held = [
        hold(before, memory, file, lambda part=part: explain(part))
        for part, (before, (memory, file)) in enumerate(pairs)
    ]
    steps = read_steps(run)
    replayed = replay(case, session, played, allocator)
    wrong = [text for seen in held for text in seen["wrong"]] + replayed
    return {
        "passed": not wrong,
        "wrong": wrong,
        "parts": [
            {**seen, "predicted": {name: before[name] for name in ("requested", "ranges", "plan")}}
            for before, seen in zip(prediction["parts"], held, strict=True)
        ],
        "losses": [step["loss"] for step in steps],
        "step_seconds": None if session.phantom else seconds_of_a_step(steps),
        "replay": replayed,
    }
