"""The matrix of configurations on a GPU: each predicted, then run, then held against the prediction."""

import dataclasses
import json
import random
import statistics
import subprocess
import time

from compare.rows import METHODS, PRECISIONS, Row

# Two shapes in fathom's config.json: one with odd sizes throughout, and the 125M Llama that is also compared on a CPU.
SHAPES = {
    "odd": {
        "vocab_size": 1003,
        "hidden_size": 200,
        "intermediate_size": 333,
        "num_hidden_layers": 3,
        "num_attention_heads": 5,
        "num_key_value_heads": 5,
        "head_dim": 40,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
    },
    "125m": {
        "vocab_size": 32000,
        "hidden_size": 768,
        "intermediate_size": 2048,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
    },
}
ROWS_OF_TOKENS = {"odd": [97, 64, 31, 97, 80, 5, 97, 64], "125m": [512] * 16}
BATCH = {"odd": 2, "125m": 4}
STEPS = 6


@dataclasses.dataclass(frozen=True)
class Case:
    shape: str
    row: Row

    @property
    def name(self):
        return f"{self.shape}-{self.row.name}"


def cases(quick=False):
    shapes = ["odd"] if quick else list(SHAPES)
    return [
        Case(shape, Row(method, precision, checkpointing))
        for shape in shapes
        for method in METHODS
        for precision in PRECISIONS
        for checkpointing in (False, True)
    ]


def write_inputs(folder):
    """A folder with a config.json and a file of ids for each shape."""
    for name, shape in SHAPES.items():
        model = folder / f"model-{name}"
        model.mkdir(parents=True, exist_ok=True)
        document = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "torch_dtype": "float32",
            "bos_token_id": 1,
            "eos_token_id": 2,
            "initializer_range": 0.02,
            **shape,
        }
        (model / "config.json").write_text(json.dumps(document, indent=2) + "\n")
        source = random.Random(7)
        with open(folder / f"ids-{name}.jsonl", "w") as out:
            for length in ROWS_OF_TOKENS[name]:
                ids = [3 + int((shape["vocab_size"] - 3) * source.random() ** 4) for _ in range(length)]
                out.write(json.dumps({"input_ids": ids, "labels": ids}) + "\n")


def write_config(case, folder, run, device="cuda"):
    settings = {
        "model_name_or_path": folder / f"model-{case.shape}",
        "random_init": "true",
        "train_file": folder / f"ids-{case.shape}.jsonl",
        "output_dir": run,
        "max_length": max(ROWS_OF_TOKENS[case.shape]),
        "max_steps": STEPS,
        **case.row.fathom_settings(),
        "device": device,
        "per_device_train_batch_size": BATCH[case.shape],
    }
    config = folder / f"{case.name}-{device}.yaml"
    config.write_text("".join(f"{key}: {value}\n" for key, value in settings.items()))
    return config


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


def predict(case, check):
    """What `estimate` says before anything runs."""
    config = write_config(case, check.work, check.work / f"run-{case.name}")
    text = call(
        [check.fathom, "estimate", config, "--gpu", check.gpu_name, "--json"],
        check.logs / f"{case.name}-estimate.log",
        check.environment,
    )
    return json.loads(text)


def play(case, check):
    """The run itself, on the GPU or played by the phantom; its memory.json and its steps."""
    run = check.work / f"run-{case.name}"
    subprocess.run(["rm", "-rf", run], check=True)
    command = [check.fathom, "train", write_config(case, check.work, run)]
    if check.phantom:
        command += ["--phantom-gpu", check.gpu_name]
    call(command, check.logs / f"{case.name}-train.log", check.environment)
    return json.loads((run / "memory.json").read_text()), read_steps(run)


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


def hold(predicted, measured):
    """Predicted against measured: requested bytes must agree exactly, allocated and reserved lie in the range."""
    lines = {}
    for key, name in (
        ("peak", "requested"),
        ("allocated", "allocated"),
        ("reserved", "reserved"),
        ("device", "device"),
    ):
        before, after = figure(predicted, key, "dry_run"), figure(measured, key, "measured")
        bounds = figure(predicted, key, "range") or [before, before]
        if before is None or after is None:
            lines[name] = {"predicted": before, "measured": after, "inside": None}
        else:
            lines[name] = {
                "predicted": before,
                "range": bounds,
                "measured": after,
                "difference": after - before,
                "inside": bounds[0] <= after <= bounds[1],
            }
    components = {
        name: (entry.get("dry_run"), figure(measured["components"], name, "measured"))
        for name, entry in predicted.get("components", {}).items()
    }
    wrong = [
        f"{name} {after - before:+,}"
        for name, (before, after) in components.items()
        if before is not None and after is not None and before != after
    ]
    wrong += [
        f"peak of {name} {after - before:+,}"
        for name, before, after in phase_peaks(predicted, measured)
        if before != after
    ]
    return {
        "figures": lines,
        "components": {name: {"predicted": a, "measured": b} for name, (a, b) in components.items()},
        "wrong_components": wrong,
    }


def phase_peaks(predicted, measured):
    """(phase, predicted, measured) for the phases that both know."""
    for name, phase in predicted.get("phases", {}).items():
        before = figure(phase, "peak", "dry_run")
        after = figure(measured.get("phases", {}).get(name, {}), "peak", "measured")
        if before is not None and after is not None:
            yield name, before, after


def as_expected(result):
    """Whether nothing lies outside what was predicted. The driver's figure has a bound of its own and is only shown."""
    figures = result["figures"]
    return not result["wrong_components"] and all(
        figures[name]["inside"] for name in ("requested", "allocated", "reserved")
    )


def run_case(case, check):
    """One configuration from the prediction to the verdict."""
    result = {"case": case.name, "title": f"{case.shape}: {case.row.title}"}
    try:
        predicted = predict(case, check)
        (check.out / "predictions").mkdir(parents=True, exist_ok=True)
        (check.out / f"predictions/{case.name}.json").write_text(json.dumps(predicted, indent=1) + "\n")
        measured, steps = play(case, check)
        result.update(
            hold(predicted, measured),
            losses=[step["loss"] for step in steps],
            tokens_per_second=None if check.phantom else tokens_per_second(steps),
        )
        result["passed"] = as_expected(result)
    except (CommandFailed, KeyError, ValueError, OSError) as error:
        result.update(passed=False, error=f"{type(error).__name__}: {error}")
    return result
