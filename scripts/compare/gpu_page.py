"""The results of a GPU check as a page of tables."""


def mebibytes(count):
    return "—" if count is None else f"{count / 2**20:,.1f}"


def range_cell(bounds):
    return mebibytes(bounds[0]) if bounds[0] == bounds[1] else f"{mebibytes(bounds[0])} to {mebibytes(bounds[1])}"


def part_cells(part):
    """Events, requested, allocated and reserved bytes of one process."""
    difference = part["requested"] - part["predicted"]["requested"]
    cells = [f"{part['events']:,}", f"{part['requested']:,}", f"{difference:+,}"]
    for name in ("allocated", "reserved"):
        cells += [range_cell(part["predicted"]["ranges"][name]), mebibytes(part[name])]
    return cells


def outside_of_plans(results):
    """How many processes reserved more or less than the range of the plan, which knows only the largest steps."""
    parts = [part for result in results for part in result.get("parts", [])]
    plans = [(part["predicted"]["plan"]["reserved"], part["reserved"]) for part in parts]
    return sum(not bounds[0] <= reserved <= bounds[1] for bounds, reserved in plans if bounds), len(parts)


def matrix_lines(facts, results):
    runner = "played on a phantom with another placement" if facts["phantom"] else "run on the real GPU"
    outside, processes = outside_of_plans(results)
    lines = [
        f"## Memory: predicted on the phantom GPU, then {runner}",
        "",
        "All predictions were written before the first run (predictions.json, SHA-256 "
        f"`{facts['predictions_sha256']}`). Every event of the caching allocator's trace (action, block, size, stream) "
        "must be the predicted one; requested bytes must agree to the byte in total, per component and per phase; "
        f"allocated and reserved must lie in the range over {facts['placements']} placements of segments; and a phantom "
        "run that is handed the real run's segment addresses must end with the same allocated and reserved bytes and "
        "the same trace, segments included.",
        "",
        "| configuration | process | events | requested | difference | allocated, MiB: predicted | measured "
        "| reserved, MiB: predicted | measured | replayed | verdict |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|---|",
    ]
    for result in results:
        if "error" in result:
            lines.append(f"| {result['title']} |" + " — |" * 9 + f" failed: {result['error'][:160]} |")
            continue
        for number, part in enumerate(result["parts"], 1):
            lines.append(
                f"| {result['title']} | {number} | {' | '.join(part_cells(part))} | "
                f"{'equal' if not result['replay'] else 'differs'} | "
                f"{'as predicted' if not part['wrong'] else '; '.join(part['wrong'])[:300]} |"
            )
        if result["replay"]:
            lines.append(f"| {result['title']}, replay |" + " — |" * 9 + f" {'; '.join(result['replay'])[:300]} |")
    lines += [
        "",
        "The plan that `train` prints plays the largest steps only, in one placement: "
        f"{processes - outside} of {processes} processes reserved exactly what it says.",
        "",
    ]
    return lines


def parity_lines(parity):
    lines = ["## Parity of the GPU with the CPU, FP32", ""]
    for entry in parity:
        verdict = (
            "not made: " + entry["error"]
            if "error" in entry
            else (f"{entry['difference']:.1e} (allowed {entry['allowed']:.0e})")
        )
        lines.append(f"- {entry['what']}: {verdict}")
    return lines + [""]


def peer_lines(peer):
    if "error" in peer:
        return ["## Against transformers + PEFT", "", peer["error"], ""]
    lines = [
        f"## Against transformers {peer['versions']['transformers']} + PEFT on this GPU",
        "",
        f"The 125m shape, {peer['batch']} × 512 tokens a step; allocated and reserved in MiB.",
        "",
        "| | tokens/s: fathom | peer | ratio | allocated: fathom | peer | ratio | reserved: fathom | peer | ratio |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in peer["rows"]:
        if "error" in row:
            lines.append(f"| {row['title']} | {row['error'][:120]} |" + " — |" * 8)
            continue
        cells = [
            f"{row['fathom_tokens_per_second']:,.0f}",
            f"{row['peer_tokens_per_second']:,.0f}",
            f"{row['fathom_tokens_per_second'] / row['peer_tokens_per_second']:.2f}",
        ]
        for name in ("allocated", "reserved"):
            ours, theirs = row[f"fathom_{name}"], row[f"peer_{name}"]
            cells += [mebibytes(ours), mebibytes(theirs), f"{ours / theirs:.2f}" if ours else "—"]
        lines.append(f"| {row['title']} | {' | '.join(cells)} |")
    return lines + [""]


def page(facts, parity, results, peer):
    gpu = facts["gpu"]
    lines = [
        f"# GPU check on {gpu['name']}" + (" (phantom)" if facts["phantom"] else ""),
        "",
        f"{facts['date']}; compute capability {gpu['compute_capability']}, {gpu['multiprocessors']} multiprocessors, "
        f"{gpu['total_bytes'] / 2**30:.1f} GiB, driver {facts['driver']}; predictions for '{facts['gpu_name']}'; "
        f"{facts['fathom']}; LibTorch in {facts['torch']}; `{facts['command']}`.",
        "",
    ]
    if facts["phantom"]:
        lines += [
            "The GPU's side was played by `train --phantom-gpu` with segments placed elsewhere: this page shows that "
            "the check works, not that the prediction is right.",
            "",
        ]
    passed = sum(result["passed"] for result in results)
    headline = f"{passed} of {len(results)} configurations as predicted"
    if facts["phantom"]:
        return "\n".join(lines + [headline + ".", ""] + matrix_lines(facts, results)).rstrip() + "\n"
    lines += [headline + ".", ""] + matrix_lines(facts, results) + parity_lines(parity) + peer_lines(peer)
    return "\n".join(lines).rstrip() + "\n"
