"""What of two runs must be the same, and data of which the batches can be dealt to copies in turn."""

import hashlib
import json
import shutil

from ranks.runs import train

BATCHES = 23  # of a pass of id lines; no number of ranks divides it
BIN = 48  # tokens of the first two lines of a batch: one bin where they are packed
CLOCK_AND_MEMORY = ("_per_second", "_seconds", "_bytes")


def batch_lines(batch, count, with_labels):
    for length in (BIN // 2 + batch, BIN // 2 - batch, BIN // 2)[:count]:
        ids = [3 + (batch * 31 + i * i * 7) % 40 for i in range(length)]
        yield json.dumps({"input_ids": ids, **({"labels": ids[: length // 2 + 1]} if with_labels else {})}) + "\n"


def write_batches(file, order, lines=2, with_labels=False):
    file.write_text("".join(line for batch in order for line in batch_lines(batch, lines, with_labels)), encoding="utf-8")


def dealt(copies, shards, accumulation):
    """The batches of a pass as `copies` ranks must come to them, so that each adds up those of one copy of `shards` ranks."""
    ranks, order = copies * shards, []
    for step in range(0, BATCHES, ranks * accumulation):
        own = [[] for _ in range(copies)]
        batches = range(step, min(BATCHES, step + ranks * accumulation))
        for batch in batches:
            own[(batch - step) % ranks // shards].append(batch)
        order += [own[turn % copies][turn // copies] for turn in range(len(batches))]
    return order


class Run:
    """A run's metrics without its times and bytes, and the hash of its weights."""

    def __init__(self, keys, folder, out):
        _, self.failure = train(keys, folder, out)
        if not self.failure:
            lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
            self.lines = [{key: line[key] for key in line if not key.endswith(CLOCK_AND_MEMORY)} for line in lines]
            file = next(path for name in ("adapter_model", "model") if (path := out / f"{name}.safetensors").exists())
            self.weights = hashlib.sha256(file.read_bytes()).hexdigest()
        shutil.rmtree(out, ignore_errors=True)

    def losses(self):
        return [line["loss"] for line in self.lines if "loss" in line]

    def skipped(self):
        return max((line.get("skipped_steps", 0) for line in self.lines), default=0)

    def missing(self, steps, evaluations):
        found = len(self.losses()), sum("eval_loss" in line for line in self.lines)
        return "" if found == (steps, evaluations) else f"{found[0]} losses and {found[1]} evaluations"

    def difference(self, other, apart=()):
        """Where the numbers of two runs first differ, but for the keys `apart`; empty where they do not."""
        if len(self.lines) != len(other.lines):
            return f"{len(self.lines)} lines of metrics, not {len(other.lines)}"
        for own, its in zip(self.lines, other.lines):
            for key in dict.fromkeys([*own, *its]):
                if key not in apart and own.get(key) != its.get(key):
                    return f"step {own['step']}: {key} {own.get(key)}, not {its.get(key)}"
        return ""

    def largest_difference(self, other):
        """Of a step's loss, relative to the other's."""
        return max(abs(own - its) / abs(its) for own, its in zip(self.losses(), other.losses()))
