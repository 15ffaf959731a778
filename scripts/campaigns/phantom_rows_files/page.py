"""Lays out benchmarks/phantom-rows.md: published figures beside what was predicted of them."""
import collections
import hashlib
import pathlib
import statistics

from phantom_rows_files import settings

FILES = pathlib.Path(__file__).resolve().parent
NEAR_BYTES = int(0.9 * 79.15 * 2**30)  # of the A100: what reserves more may fail for a little more

HEAD = """\
# Published rows, on a phantom A100

What an A100 with 80 GB took in a published benchmark, and what the same versions of the same libraries ask of a
phantom one: the peak of PyTorch's allocated memory and what is allocated at the end, in bytes. For the predicted
figures no GPU, no weights and none of the benchmark's data are needed. Made by `scripts/campaigns/phantom_rows`.
"""


def page(rows, published, predictions, played):
    """Of the rows that were played. predictions: of those whose figures nobody had looked at by then."""
    rows = {name: row for name, row in rows.items() if name in played}
    first = {name: row for name, row in rows.items() if name in predictions}
    known = {name: row for name, row in rows.items() if name not in predictions}
    parts = [HEAD, sources(rows, played), (FILES / "page.md").read_text()]
    if first:
        parts += ["## Predicted before the figures were looked at\n", summary(first, published, predictions),
                  peaks(first, published, predictions)]
    parts += ["## Rows that failed on the A100, and rows that came near its limit\n", REMARK_ON_FAILURES,
              limits(rows, published, {**played, **predictions})]
    parts += ["## What differed, and why\n", (FILES / "differences.md").read_text()]
    mended = {name: row for name, row in first.items() if differs(predictions[name], played[name])}
    if mended:
        parts += ["Rows that come out otherwise today:\n", peaks(mended, published, played)]
    parts += ["## Rows with whose figures the script was written\n", peaks(known, published, played)]
    parts += ["## What nvidia-smi showed\n", REMARK_ON_NVIDIA, nvidia(rows, published, played)]
    reads = collections.Counter(read for name in rows for read in played[name]["reads"])
    parts += ["## What was read of values that only a GPU knows\n",
              "\n".join(f"- {read} (rows: {count})" for read, count in sorted(reads.items())) or "Nothing."]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def sources(rows, played):
    programs = sorted({played[name]["program"] for name in rows})
    digest = hashlib.sha256((FILES / "predictions.json").read_bytes()).hexdigest()
    return (f"Published: {settings.SOURCE}, commit {settings.COMMIT[:7]}, {settings.FOLDER}/: the rows of one GPU in\n"
            f"{', '.join(f'{table}.csv' for table in settings.TABLES)}.\n"
            f"Program: {'; '.join(programs)}.\n"
            f"First predictions: scripts/campaigns/phantom_rows_files/predictions.json, SHA-256 {digest}.\n")


def is_near(found):
    return not found["refusal"] and found["reserved"] >= NEAR_BYTES


def differs(one, other):
    return any(one.get(figure) != other.get(figure) for figure in ("peak", "end")) or (
        bool(one["refusal"]) != bool(other["refusal"]))


def table_of(titles, lines):
    """titles: with a colon at the end where numbers stand below it."""
    head = ["|" + "|".join(f" {title.rstrip(':')} " for title in titles) + "|",
            "|" + "|".join("---:" if title.endswith(":") else "---" for title in titles) + "|"]
    return "\n".join(head + ["| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else cell for cell in line) + " |"
                             for line in lines]) + "\n"


def cells_of(row):
    table = row["table"].removeprefix("a100_80gb").lstrip("_") or "refs"
    method = "LoRA" if "lora" in row else "full"
    return [table, row["model"].split("/")[1], row["framework"], method, str(row["batch"])]


TITLES = ["table", "model", "framework", "what", "batch:"]


def peaks(rows, published, found):
    """Rows that have peaked on the A100 and here."""
    lines = []
    for name, row in rows.items():
        if published[name]["peak"] is None or found[name]["refusal"]:
            continue
        line = cells_of(row)
        for figure in ("peak", "end"):
            line += [published[name][figure], found[name][figure], found[name][figure] - published[name][figure]]
        lines.append(line)
    return table_of([*TITLES, "published peak:", "predicted:", "off by:", "published end:", "predicted:", "off by:"],
                    lines)


def summary(rows, published, found):
    ran = [name for name in rows if published[name]["peak"] is not None]
    failed = [name for name in rows if published[name]["peak"] is None]
    both = [name for name in ran if not found[name]["refusal"]]
    lines = [f"{len(rows)} rows: {len(ran)} ran on the A100, {len(failed)} have no figures there.\n",
             f"- Of those that ran, {len(both)} were predicted to fit, {len(ran) - len(both)} to run out of memory."]
    for figure, words in (("peak", "peak"), ("end", "memory at the end")):
        off = [abs(found[name][figure] - published[name][figure]) for name in both]
        shares = [each / published[name][figure] for each, name in zip(off, both, strict=True)]
        lines.append(f"- Their {words}: {off.count(0)} of {len(off)} are 0 bytes off; median "
                     f"{statistics.median(shares):.3%}, worst {max(shares):.2%}.")
    told = sum(bool(found[name]["refusal"]) for name in failed)
    lines.append(f"- Of those without figures, {told} were predicted to run out of memory.")
    return "\n".join(lines) + "\n"


def refusal_of(refusal):
    return (f"out of memory in step {refusal['step']}, {refusal['phase']}: {refusal['bytes']:,} beside "
            f"{refusal['allocated']:,}, at {refusal['place']}")


def limits(rows, published, found):
    lines = []
    for name, row in rows.items():
        ran, refusal = published[name]["peak"] is not None, found[name]["refusal"]
        if ran and not refusal and not is_near(found[name]):
            continue
        told = "fits"
        if refusal:
            told = refusal_of(refusal)
        elif found[name].get("beside_context"):
            told += "; not beside a context: " + refusal_of(found[name]["beside_context"])
        if ran == bool(refusal):
            told = f"**{told}**"
        shown, reserved = published[name]["nvidia_mib"], found[name]["reserved"] >> 20
        lines.append([*cells_of(row), "ran" if ran else "no figures", told, shown, reserved, shown - reserved])
    return table_of([*TITLES, "published", "predicted", "nvidia-smi:", "reserved:", "difference:"], lines)


REMARK_ON_FAILURES = """\
Where a run has failed, the benchmark's tables have no figures but what nvidia-smi showed at most, in MiB; they do not
say why it failed. Predicted is what the first prediction said, in bold where it was wrong; beside it what PyTorch's
allocator had of the phantom at most. Rows that fit are here where they reserve more than 90% of the GPU; those that
were predicted first were predicted to fit as well where a driver's context takes 0.5 GiB of it. In seven of the ten
failures of Meta-Llama-3-8B nvidia-smi showed what was reserved here and 507 to 519 MiB, as in most rows of that table
that ran: they seem to have failed for want of the same memory.
"""

REMARK_ON_NVIDIA = """\
Published is the device's memory in use, in MiB, in which the CUDA context and loaded kernels lie too. *Reserved* is
what PyTorch's allocator has of the phantom at most, in 2 steps, with segments at ascending addresses; on a GPU
their addresses, and so the gaps between blocks, are others, and 100 steps change them. This is not a prediction of it.
"""


def nvidia(rows, published, found):
    lines = []
    for name, row in rows.items():
        if published[name]["nvidia_mib"] is None or found[name]["refusal"]:
            continue
        shown, reserved = published[name]["nvidia_mib"], found[name]["reserved"] >> 20
        lines.append([*cells_of(row), shown, reserved, shown - reserved])
    return table_of([*TITLES, "published:", "reserved:", "difference:"], lines)
