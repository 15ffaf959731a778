"""Runs in, the results out: ratios with their spread as JSON and as a page of tables."""

import statistics

from compare.json_rows import json_rows
from compare.rows import LOSS_TOLERANCE

# What each row is held against: fathom's figure over the peer's.
BEYOND_STATES_CEILING = 0.5
RESIDENT_CEILING = {"full": 0.85, "lora": 0.5}
START_CEILING = 0.2


def speed_floor(method, precision, tuned):
    """Against a peer that keeps freed memory (tuned) less is gained than against its default."""
    if precision == "fp32":
        return 1.0
    return 1.2 if tuned else {"full": 2.0, "lora": 1.7}[method]


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "all": list(values)}


def row_result(row, pairs, counted, warm_up, tokens):
    """pairs: (fathom's run, its memory, the peer's run) of each repetition; counted: a peer's run under the counter.

    tokens: of a step, an encoder-decoder's sources and targets.
    """
    speeds = [
        (tokens / ours.median_step_seconds(warm_up), tokens / theirs.median_step_seconds(warm_up))
        for ours, _, theirs in pairs
    ]
    states = row.state_bytes(counted["parameters"], counted["trained_parameters"])
    fathom_peak = max(memory["peak"] for _, memory, _ in pairs)
    scratch = max(memory["kernel_scratch"] for _, memory, _ in pairs)
    peer_peak = counted["peak_tensor_bytes"]
    differences = [abs(a - b) for ours, _, theirs in pairs for a, b in zip(ours.losses, theirs.losses, strict=True)]
    return {
        "row": row.name,
        "title": row.title,
        "tokens_per_step": tokens,
        "tokens_per_second": {
            "fathom": spread([ours for ours, _ in speeds]),
            "peer": spread([peer for _, peer in speeds]),
            "ratio": spread([ours / peer for ours, peer in speeds]),
        },
        "peak_tensor_bytes": {
            "fathom": fathom_peak,
            "fathom_kernel_scratch": scratch,
            "peer": peer_peak,
            "ratio": (fathom_peak + scratch) / peer_peak,
        },
        "beyond_states_bytes": {
            "states": states,
            "fathom": fathom_peak + scratch - states,
            "peer": peer_peak - states,
            "ratio": (fathom_peak + scratch - states) / (peer_peak - states),
        },
        "resident_bytes": {
            "fathom": spread([ours.resident_bytes for ours, _, _ in pairs]),
            "peer": spread([theirs.resident_bytes for _, _, theirs in pairs]),
            "peer_after_import": pairs[0][2].summary["resident_after_import_bytes"],
            "ratio": spread([ours.resident_bytes / theirs.resident_bytes for ours, _, theirs in pairs]),
        },
        "losses": {"fathom": pairs[0][0].losses, "peer": pairs[0][2].losses},
        "largest_loss_difference": max(differences),
        "loss_tolerance": LOSS_TOLERANCE[row.precision],
        "losses_agree": max(differences) <= LOSS_TOLERANCE[row.precision],
        "clock_difference": max(
            abs(clock_difference(run, warm_up)) for ours, _, theirs in pairs for run in (ours, theirs)
        ),
        "parameters": counted["parameters"],
        "base_parameters": counted["base_parameters"],
        "trained_parameters": counted["trained_parameters"],
        "versions": counted["versions"],
    }


def clock_difference(run, warm_up):
    """How much longer the steps took by the watcher's clock than by the program's own, as a share."""
    steps = len(run.step_seconds)
    if len(run.reported_at) != steps or steps - warm_up < 2:
        return 0.0
    outside = (run.reported_at[-1] - run.reported_at[warm_up]) / (steps - warm_up - 1)
    return outside / statistics.mean(run.step_seconds[warm_up + 1 :]) - 1


def start_result(pairs):
    return {
        "fathom_seconds": spread([ours for ours, _ in pairs]),
        "peer_seconds": spread([peer for _, peer in pairs]),
        "ratio": spread([ours / peer for ours, peer in pairs]),
    }


def versions(rows):
    """Those of the peer's packages; rows without LoRA do not load PEFT."""
    merged = {}
    for row in rows:
        merged.update({name: version for name, version in row["versions"].items() if version or name not in merged})
    return merged


def ratio_text(ratio):
    return f"{ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f})"


def mebibytes(count):
    return f"{count / 2**20:,.0f}"


def verdicts(rows, start, tuned):
    """What the figures were to reach, and whether they did."""
    lines = []
    for row in rows:
        missed = []
        method, precision = row["row"].split("-")[:2]
        floor, resident = speed_floor(method, precision, tuned), RESIDENT_CEILING[method]
        if row["tokens_per_second"]["ratio"]["median"] < floor:
            missed.append(f"speed below {floor}×")
        if row["beyond_states_bytes"]["ratio"] > BEYOND_STATES_CEILING:
            missed.append(f"beyond states above {BEYOND_STATES_CEILING}×")
        if row["resident_bytes"]["ratio"]["median"] > resident:
            missed.append(f"resident above {resident}×")
        if not row["losses_agree"]:
            missed.append(f"losses differ by {row['largest_loss_difference']:.2g}, allowed {row['loss_tolerance']:.0e}")
        if row["clock_difference"] > 0.05:
            missed.append(f"steps took {row['clock_difference']:.0%} longer by an outside clock")
        lines.append(f"- {row['title']}: {'; '.join(missed) or 'reached'}")
    if start:
        reached = start["ratio"]["median"] <= START_CEILING
        lines.append(f"- start to the first step: {'reached' if reached else f'above {START_CEILING}×'}")
    return lines


def page(facts, rows, start):
    versions = facts["versions"]
    lines = [
        f"# fathom against transformers + PEFT on {facts['cpu']}",
        "",
        f"{facts['date']}; `{facts['command'].strip()}`; {facts['fathom']}; torch {versions['torch']}, "
        f"transformers {versions['transformers']}, PEFT {versions['peft'] or '—'}; {facts['threads']} threads of "
        f"{facts['processors']} processors ({facts['family']}; {', '.join(facts['instruction_sets'])}; without "
        f"{', '.join(facts['missing_instruction_sets']) or 'none'}), {facts['memory_bytes'] / 2**30:.0f} GiB; load "
        f"{facts['load_at_start']:.2f} at the start; the peer's malloc: {facts['peer_malloc']}.",
        "",
        f"A model of {rows[0]['base_parameters'] / 1e6:.1f}M parameters with random weights, "
        f"{facts['batch']} tokens a step{facts['shape_notes']}, fused AdamW, clipping at 1; "
        f"{facts['repetitions']} run(s) of each side in turn, "
        f"each of {facts['steps']} steps, of which the first "
        f"{facts['warm_up']} are not timed. Ratios are fathom's figure over the peer's: median (smallest–largest). "
        "Speed above 1 is faster, memory below 1 is less.",
        "",
        "## Speed",
        "",
        "| | fathom tokens/s | peer tokens/s | ratio | largest difference of a loss |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        speed, allowed = row["tokens_per_second"], f"(allowed {row['loss_tolerance']:.0e})"
        cells = [row["title"], f"{speed['fathom']['median']:.1f}", f"{speed['peer']['median']:.1f}"]
        cells += [ratio_text(speed["ratio"]), f"{row['largest_loss_difference']:.1e} {allowed}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "## Memory, MiB",
        "",
        "Tensor bytes: the peak of what is asked of LibTorch's CPU allocator; fathom's with its kernel scratch, the "
        "peer's counted by a preloaded library. Beyond states: the same less weights, gradients and optimizer states "
        "by element count. Resident: the kernel's figure for the whole process.",
        "",
        "| | tensors: fathom | peer | ratio | beyond states: fathom | peer | ratio | resident: fathom | peer | ratio |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        peak, beyond, resident = row["peak_tensor_bytes"], row["beyond_states_bytes"], row["resident_bytes"]
        cells = [row["title"], mebibytes(peak["fathom"] + peak["fathom_kernel_scratch"]), mebibytes(peak["peer"])]
        cells += [
            f"{peak['ratio']:.2f}",
            mebibytes(beyond["fathom"]),
            mebibytes(beyond["peer"]),
            f"{beyond['ratio']:.2f}",
        ]
        cells += [mebibytes(resident["fathom"]["median"]), mebibytes(resident["peer"]["median"])]
        lines.append(f"| {' | '.join(cells)} | {ratio_text(resident['ratio'])} |")
    after_import = mebibytes(rows[0]["resident_bytes"]["peer_after_import"])
    lines += [
        "",
        f"The peer's process holds {after_import} MiB once its libraries are imported, CUDA's libraries among them.",
    ]
    if start:
        ours, peer = start["fathom_seconds"], start["peer_seconds"]
        lines += [
            "",
            "## Start of the program to the first finished step, shipped model",
            "",
            f"fathom {ours['median']:.2f} s ({ours['min']:.2f}–{ours['max']:.2f}), peer {peer['median']:.2f} s "
            f"({peer['min']:.2f}–{peer['max']:.2f}): ratio {ratio_text(start['ratio'])}.",
        ]
    lines += [
        "",
        "## Against what was to be reached",
        "",
        "Speed: FP32 ≥ 1.0×; BF16 ≥ 2.0× (full) and 1.7× (LoRA), ≥ 1.2× where the peer's malloc is tuned. Beyond states "
        f"≤ {BEYOND_STATES_CEILING}×; resident ≤ {RESIDENT_CEILING['full']}× (full), {RESIDENT_CEILING['lora']}× (LoRA); "
        f"start ≤ {START_CEILING}×.",
        "",
    ]
    return "\n".join(lines + verdicts(rows, start, facts["peer_malloc"] == "tuned")) + "\n"


def write(stem, facts, rows, start):
    stem.parent.mkdir(parents=True, exist_ok=True)
    text = page(facts, rows, start)
    stem.with_name(stem.name + ".md").write_text(text)
    document = {"machine": facts, "rows": rows, "start_to_first_step": start}
    stem.with_name(stem.name + ".json").write_text(json_rows(document, 2))
    return text
