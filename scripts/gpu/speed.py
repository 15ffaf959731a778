"""Speed and memory beside transformers + PEFT on the GPU: the same weights and adapter, turn about, losses compared.

The peer runs as its users run it (eager), and under torch.compile. Nobody waits for the device within a step but where the
program itself does: what is timed is the whole of the steps after the warm-up.
"""

import dataclasses
import json
import shutil
import statistics
import subprocess

from compare import commands, phantom
from compare.cuda import Gpu
from compare.rows import LOSS_TOLERANCE, METHODS, PRECISIONS, Row
from gpu.session import ROOT, Unit, UnitFailed, figure, read_steps

MAKER = ROOT / "scripts/compare/make_model.py"
STEPS, WARM_UP = 12, 4
SIDES = ["fathom", "eager", "compiled"]


@dataclasses.dataclass(frozen=True)
class Comparison:
    model: str  # of configs/models, or the 125M of make_model.py
    row: Row
    batch: int
    length: int
    repetitions: int = 3
    seconds: float = 90  # of one repetition of all sides
    fastest: bool = False  # fathom with cuDNN's attention and CUDA graphs; the peer takes what PyTorch chooses

    @property
    def title(self):
        return f"{self.model}, {self.row.title}, {self.batch} × {self.length:,}"

    @property
    def key(self):
        return f"speed/{self.model}-{self.row.name}"


def comparisons():
    """Those of one model follow each other: its weights are written once."""
    yield Comparison("llama-3.2-1b", Row("full", "bf16"), 4, 2048, seconds=150, fastest=True)
    yield Comparison("llama-3.2-1b", Row("lora", "autocast"), 4, 2048, seconds=150)
    yield Comparison("llama-3.1-8b", Row("lora", "bf16"), 2, 2048, repetitions=2, seconds=240, fastest=True)
    # Weights, gradients and two moments in BF16 are 61 GB: one row beside them is what a peer has room for in 80.
    yield Comparison("qwen2.5-7b", Row("full", "bf16"), 1, 2048, repetitions=1, seconds=300, fastest=True)
    for method in METHODS:
        for precision in PRECISIONS:
            yield Comparison("125m", Row(method, precision), 8, 512, seconds=60)


def units(session):
    """One for each repetition, so that none is lost when the minutes end."""
    return [
        Unit(f"{c.key}/{number}", c.title, c.seconds, lambda c=c: compare(c, session))
        for number in range(1, 4)
        for c in comparisons()
        if number <= c.repetitions
    ]


def prepare(comparison, session):
    """Weights, ids and, for LoRA, an adapter that both sides start from, trained for a step so that B is not 0."""
    model = session.work / f"speed-{comparison.model}"
    ids = session.work / f"speed-{comparison.model}-{comparison.length}.jsonl"
    shape = [] if comparison.model == "125m" else ["--config", ROOT / "configs/models" / comparison.model]
    if not ids.exists():
        for other in session.work.glob("speed-*"):  # a model of 8B parameters takes 16 GB
            shutil.rmtree(other) if other.is_dir() else other.unlink()
        arguments = [
            "--model",
            model,
            *shape,
            "--ids",
            ids,
            "--length",
            comparison.length,
            "--lines",
            2 * comparison.batch,
        ]
        arguments += ["--device", "cuda"] if not session.phantom else []
        session.call([session.peer_python, MAKER, *arguments], 180)
    if comparison.row.method != "lora" or session.phantom:  # what a phantom trains may not be loaded
        return model, ids, None
    adapter = session.work / f"speed-{comparison.model}-{comparison.row.name}-adapter"
    if not adapter.exists():
        fathom(comparison, model, ids, adapter, session, 1)
    return model, ids, adapter


def fathom(comparison, model, ids, run, session, steps, **more):
    config = session.work / "speed.yaml"
    settings = {"device": "cuda", "per_device_train_batch_size": comparison.batch, **more}
    if comparison.fastest:
        settings |= {"attn_implementation": "cudnn", "cuda_graphs": "true"}
    commands.write_fathom_config(config, comparison.row, model, ids, run, comparison.length, steps, **settings)
    session.train(config)


def of_fathom(comparison, model, ids, adapter, session):
    run = session.work / "speed-run"
    shutil.rmtree(run, ignore_errors=True)
    more = {"adapter_name_or_path": adapter} if adapter else {}
    fathom(comparison, model, ids, run, session, STEPS, **more)
    memory, steps = json.loads((run / "memory.json").read_text()), read_steps(run)
    return {
        "step_seconds": statistics.mean(step["step_seconds"] for step in steps[WARM_UP:]),
        "losses": [step["loss"] for step in steps],
        **{name: figure(memory, name, "measured") for name in ("allocated", "reserved")},
    }


def of_peer(comparison, model, ids, adapter, session, compiled):
    options = ["--device", "cuda", "--batch", comparison.batch, "--warm-up", WARM_UP]
    options += ["--adapter", adapter] if adapter else []
    options += ["--compile"] if compiled else []
    options += ["--without-cudnn"] if session.phantom else []
    metrics = session.work / "speed-peer.jsonl"
    environment = session.environment
    if session.phantom:
        gpu = Gpu(f"phantom {session.gpu_name}", "9.0", 132, session.memory_bytes)
        environment = {**environment, **phantom.stubs_environment(session.fathom, gpu, session.memory_bytes)}
    command = commands.peer_command(session.peer_python, comparison.row, model, ids, STEPS, metrics, *options)
    said = session.call(command, 240, environment).strip().splitlines()
    summary = json.loads(said[-1])
    return {
        "step_seconds": summary["mean_step_seconds"],
        "losses": summary["losses"],
        "allocated": summary["allocated_bytes"],
        "reserved": summary["reserved_bytes"],
        "versions": summary["versions"],
    }


def compare(comparison, session):
    probe = [session.peer_python, "-c", "import transformers, peft"]
    if subprocess.run(probe, capture_output=True).returncode != 0:
        raise UnitFailed(f"{session.peer_python} has no transformers and PEFT")
    model, ids, adapter = prepare(comparison, session)
    found = {"fathom": of_fathom(comparison, model, ids, adapter, session)}
    for side in SIDES[1:]:
        if session.phantom and side == "compiled":
            continue  # Triton needs a GPU
        try:
            found[side] = of_peer(comparison, model, ids, adapter, session, side == "compiled")
        except UnitFailed as error:
            found[side] = {"error": str(error)}
    peer = found["eager"]
    if "error" in peer:
        raise UnitFailed(peer["error"])
    pairs = zip(found["fathom"]["losses"], peer["losses"], strict=True)
    difference = max(abs(ours - theirs) for ours, theirs in pairs)
    allowed = LOSS_TOLERANCE[comparison.row.precision]
    wrong = [f"losses differ by {difference:.1e}"] if not difference <= allowed else []
    return {
        **({} if session.phantom else {"passed": not wrong, "wrong": wrong}),
        "tokens": comparison.batch * comparison.length,
        "loss_difference": difference,
        "allowed": allowed,
        "sides": found,
    }
