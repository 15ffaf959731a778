"""results.json of scripts/on_gpu as a page of tables."""

import statistics


def mebibytes(count):
    return "—" if count is None else f"{count / 2**20:,.1f}"


def range_cell(bounds):
    return mebibytes(bounds[0]) if bounds[0] == bounds[1] else f"{mebibytes(bounds[0])} to {mebibytes(bounds[1])}"


def table(header, rows):
    """header: cells, of which those that begin with ":" are of words and the others of figures."""
    lines = ["| " + " | ".join(cell.lstrip(":") for cell in header) + " |"]
    lines.append("|" + "|".join("---" if cell.startswith(":") else "---:" for cell in header) + "|")
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows] + [""]


def verdict(record):
    if "error" in record:
        return "no result: " + record["error"][:200].replace("|", "/")
    if record.get("passed", True):
        return "as it must be" if "passed" in record else "refused" if "refused" in record else ""
    return "; ".join(record["wrong"])[:300].replace("|", "/") or "not as it must be"


def tally(records):
    judged = [record for record in records.values() if "passed" in record]
    failed = [record for record in records.values() if "error" in record]
    text = f"{sum(record['passed'] for record in judged)} of {len(judged)} as they must be"
    return text + (f", {len(failed)} without a result" if failed else "")


# ---- pieces ----


def parity(records):
    rows = [
        [
            r["title"],
            f"{r['difference']:.1e}" if "difference" in r else f"{len(r['rows'])} comparisons" if "rows" in r else "—",
        ]
        + [f"{r['allowed']:.0e}" if "allowed" in r else "—", verdict(r)]
        for r in records.values()
    ]
    timed = [row for r in records.values() for row in r.get("bandwidth", []) + r.get("timings", [])]
    lines = table([":", "largest difference", "allowed", ":verdict"], rows)
    if not timed:
        return lines
    figures = [[row["what"], f"{row['ms']:.3f}", f"{row['GB/s']:,.0f}"] for row in timed]
    return [*lines, "Kernels by themselves, one launch after the other:", "", *table([":", "ms", "GB/s"], figures)]


def part_cells(part):
    """Events, requested, allocated and reserved bytes of one process, and what the driver says beyond its prediction."""
    difference = part["requested"] - part["predicted"]["requested"]
    cells = [f"{part['events']:,}", f"{part['requested']:,}", f"{difference:+,}"]
    for name in ("allocated", "reserved"):
        cells += [range_cell(part["predicted"]["ranges"][name]), mebibytes(part[name])]
    driver = part["driver"]
    known = driver["dry_run"] and driver["measured"]
    return [*cells, f"{driver['measured'] - driver['dry_run']:+,}" if known else "—"]


def check(records):
    predictions = records.pop("check/predictions", None)
    lines = [
        "Every event of the caching allocator's trace (action, block, size, stream) must be the predicted one; requested bytes "
        "must agree to the byte in total, per component and per phase; allocated and reserved must lie in the range over "
        "placements of segments; and a phantom run that is handed the real run's segment addresses must end with the same "
        "allocated and reserved bytes and the same trace, segments included. MiB; the driver: bytes beyond its prediction.",
        "",
    ]
    if predictions and "sha256" in predictions:
        lines[0] += (
            f" All predictions were written before the first run (predictions.json, SHA-256 `{predictions['sha256']}`), "
            f"{predictions['older']} of them in an earlier session or on another machine."
        )
    rows = []
    for record in records.values():
        for number, part in enumerate(record.get("parts", []), 1):
            replayed = "equal" if not record["replay"] else "; ".join(record["replay"])[:200]
            words = "; ".join(part["wrong"])[:300] or "as predicted"
            rows.append([record["title"], number, *part_cells(part), replayed, words])
        if "error" in record:
            rows.append([record["title"], *["—"] * 10, verdict(record)])
    header = [":configuration", "process", "events", "requested", "difference", "allocated: predicted", "measured"]
    return lines + table([*header, "reserved: predicted", "measured", "the driver", ":replayed", ":verdict"], rows)


def features(records):
    lines = [
        "Predicted and measured, MiB. Formula: the analytic peak less the measured one. The driver's: all that it reports "
        "in use, with what `fathom doctor --calibrate` measured beneath the allocator. Steps are few, and those of small models "
        "the host's: their time is no benchmark.",
        "",
    ]
    rows, group = [], None
    header = [":", "requested: predicted", "measured", "formula, bytes off", "reserved: predicted", "measured"]
    header += ["the driver's: predicted", "measured", "ms a step", ":verdict"]
    for record in sorted(records.values(), key=lambda record: record.get("group", "~")):
        if record.get("group") != group:
            lines += table(header, rows) if rows else []
            group, rows = record.get("group"), []
            lines += [f"### {group}", ""]
        if "peak" not in record:
            rows.append([record["title"], *["—"] * 8, verdict(record)])
            continue
        peak, reserved, device = record["peak"], record["reserved"], record["device"] or {}
        cells = [mebibytes(peak["dry_run"]), mebibytes(peak["measured"]), f"{peak['analytic'] - peak['measured']:+,}"]
        cells += [range_cell(reserved["range"]), mebibytes(reserved["measured"])]
        cells += [
            mebibytes(device.get("dry_run")),
            mebibytes(device.get("measured")),
            milliseconds(record["step_seconds"]),
        ]
        rows.append([record["title"], *cells, verdict(record)])
    return lines + table(header, rows)


def milliseconds(seconds):
    return "—" if seconds is None else f"{1000 * seconds:,.0f}" if seconds > 0.1 else f"{1000 * seconds:,.1f}"


def profile(records):
    lines = [
        "A step's share of three steps under LibTorch's profiler. Busy: some kernel or copy ran; the rest of the span is gaps. "
        "The step without the profiler is the mean of the steps after it.",
        "",
    ]
    rows = []
    for record in records.values():
        if "span_ms" not in record:
            rows.append([record["title"], *["—"] * 5, verdict(record)])
            continue
        cells = [milliseconds(record["step_seconds"]), f"{record['span_ms']:,.1f}", f"{record['busy_ms']:,.1f}"]
        cells += [
            f"{record['launches']:,.0f}",
            f"{record['events']:,.0f}",
            f"{record['host_operators']:,.0f} of the host" if record["host_operators"] else "",
        ]
        rows.append([record["title"], *cells])
    lines += table([":", "ms a step", "span, ms", "busy, ms", "launches", "kernels and copies", ":operators"], rows)
    for record in records.values():
        if not record.get("kernels"):
            continue
        lines += [f"### {record['title']}", ""]
        lines += table([":kind", "ms", "of busy", "count"], kernel_rows(record["kinds"], record))
        lines += table([":kernel", "ms", "of busy", "count"], kernel_rows(record["kernels"], record))
    return lines


def kernel_rows(entries, record):
    for entry in entries:
        share = entry["ms"] / record["busy_ms"]
        yield [f"`{entry['name']}`".replace("|", "/"), f"{entry['ms']:,.2f}", f"{share:.1%}", f"{entry['count']:,.0f}"]


def operators(records):
    """Products, attention and what streams; the allocator's requests stay in results.json."""
    lines = []
    for record in records.values():
        if "table" in record:
            counts = ", ".join(f"{len(record['table'][kind])} {kind}" for kind in ("products", "attention", "streams"))
            lines += [f"Within steps of fathom's, as `doctor --calibrate` times them: {counts}, in results.json.", ""]
            continue
        if "products" not in record:
            lines += [verdict(record), ""] if "error" in record else []
            continue
        state = "; ".join(record["state"])
        lines += [
            f"Each over inputs that no cache holds; clocks of the multiprocessors and the memory, power, heat: {state}.",
            "",
        ]
        lines += table([":", "ms", "TFLOP/s"], product_rows(record["products"]))
        header = [":", "forward, ms", "TFLOP/s", "backward, ms", "TFLOP/s", "off FP32", "to prepare a shape, ms"]
        lines += table(header, attention_rows(record["attention"]))
        lines += table([":", "ms", "GB/s"], stream_rows(record["streams"] + record["links"]))
        times = ", ".join(f"{what.removesuffix(', us')} {us:.2f} µs" for what, us in record["launches"].items())
        lines += [f"A tiny kernel: {times}.", ""]
    return lines


def product_rows(entries):
    for entry in entries:
        known = "ms" in entry
        yield [entry["what"], f"{entry['ms']:.3f}", f"{entry['TFLOP/s']:,.0f}"] if known else [entry["error"], "—", "—"]


def attention_rows(entries):
    for entry in entries:
        if "error" in entry:
            yield [entry["error"], *["—"] * 6]
            continue
        cells = [
            cell
            for way in ("forward", "backward")
            for cell in (f"{entry[way + '_ms']:.3f}", f"{entry[way + '_TFLOP/s']:,.0f}")
        ]
        prepared = f"{entry['prepared_ms']:,.1f}" if "prepared_ms" in entry else "—"
        yield [entry["what"], *cells, f"{entry['difference_from_fp32']:.1e}", prepared]


def stream_rows(entries):
    for entry in entries:
        known = "ms" in entry
        yield [entry["what"], f"{entry['ms']:.4f}", f"{entry['GB/s']:,.0f}"] if known else [entry["error"], "—", "—"]


def spread(values):
    return f"{statistics.median(values):,.2f} ({min(values):,.2f}–{max(values):,.2f})" if values else "—"


def steps(records):
    lines = [
        "With fathom's kernels, cuDNN's attention and, where nothing else is said and a step is one batch, CUDA graphs. A step's "
        "time: the median of those that lines of the log tell, of ten steps each, but for the first (smallest–largest). Of the "
        "data sheet's 989 TFLOP/s in BF16: what the model's products and attention are, without what is done again. MiB.",
        "",
    ]
    rows = []
    for record in records.values():
        times = [1e3 * seconds for seconds in record.get("step_seconds", [])]
        if not times:
            rows.append([record["title"], *["—"] * 7, verdict(record)])
            continue
        middle = statistics.median(times)
        expected = record["expected_seconds"]
        rows.append(
            [
                record["title"],
                record["shape"],
                spread(times),
                f"{1e3 * expected:,.1f}" if expected else "—",
                f"{1e3 * record['tokens'] / middle:,.0f}",
                f"{record['flops'] / middle / 1e9 / 989:.1%}",
                mebibytes(record["peak"]["dry_run"]),
                mebibytes(record["peak"]["measured"]),
                verdict(record),
            ]
        )
    header = [
        ":",
        "a step",
        "ms",
        "expected",
        "tokens/s",
        "of 989 TFLOP/s",
        "requested: predicted",
        "measured",
        ":verdict",
    ]
    return lines + table(header, rows) + parts(records)


def parts(records):
    """Of those steps, where they were timed part by part."""
    rows = []
    for record in records.values():
        timed = record.get("parts", {})
        if not any(part["measured"] for part in timed.values()):
            continue
        cells = [
            " / ".join(f"{1e3 * part[of]:,.1f}" if part[of] else "—" for of in ("expected", "measured"))
            for part in timed.values()
        ]
        rows.append([record["title"], *cells])
    if not rows:
        return []
    return ["", "Their parts, expected / measured, in ms.", "", *table([":", *timed], rows)]


def speed(records):
    lines = [
        "Both sides train the same weights (and adapter) on the same ids, turn about; tokens/s are the medians, ratios fathom's "
        "figure over the peer's of the same repetition: median (smallest–largest). MiB reserved.",
        "",
    ]
    groups = {}
    for record in records.values():
        groups.setdefault(record["title"], []).append(record)
    rows = []
    for title, runs in groups.items():
        whole = [run for run in runs if "sides" in run]
        if not whole:
            rows.append([title, len(runs), *["—"] * 6, verdict(runs[0])])
            continue
        cells = [f"{statistics.median(run['tokens'] / run['sides']['fathom']['step_seconds'] for run in whole):,.0f}"]
        for side in ("eager", "compiled"):
            sides = [(run["sides"]["fathom"], run["sides"].get(side, {})) for run in whole]
            ratios = [
                theirs["step_seconds"] / ours["step_seconds"] for ours, theirs in sides if "step_seconds" in theirs
            ]
            cells.append(spread(ratios))
        ours, theirs = (max(run["sides"][side]["reserved"] for run in whole) for side in ("fathom", "eager"))
        cells += [mebibytes(ours), mebibytes(theirs), f"{max(run['loss_difference'] for run in whole):.1e}"]
        rows.append([title, len(whole), *cells, "; ".join({verdict(run) for run in whole})])
    header = [":", "repetitions", "fathom tokens/s", "× eager", "× torch.compile", "reserved: fathom", "eager"]
    return lines + table([*header, "largest difference of a loss", ":verdict"], rows)


def configurations(records):
    """Counts, and a row for each that is not as it must be."""
    refused = sum("refused" in record for record in records.values())
    exact = sum(record.get("plan") == "exact" for record in records.values())
    events = sum(record.get("events", 0) for record in records.values())
    lines = [
        f"{len(records)} draws, {refused} refused by the plan; {events:,} events of the allocator held against the phantom's; reserved "
        f"bytes were the plan's own in {exact}.",
        "",
    ]
    wrong = [
        [r["title"], verdict(r), f"`{r.get('yaml')}`"] for r in records.values() if not r.get("passed", "refused" in r)
    ]
    return lines + (table([":", ":verdict", ":settings"], wrong) if wrong else [])


PIECES = {
    "parity": ("Values: the GPU against the CPU and against references, FP32", parity),
    "check": ("Memory: configurations predicted on the phantom GPU, then run", check),
    "features": ("Memory: feature by feature", features),
    "steps": ("Steps as a run has them", steps),
    "profile": ("Where a step's time goes", profile),
    "operators": ("Operators by themselves", operators),
    "speed": ("Speed beside transformers + PEFT", speed),
    "random": ("Random configurations on the real allocator", configurations),
}


def session_line(number, facts):
    gpu = facts["gpu"]
    return (
        f"{number}. {facts['date']}: {gpu['name']}, compute capability {gpu['compute_capability']}, {gpu['multiprocessors']} "
        f"multiprocessors, {gpu['total_bytes'] / 2**30:.1f} GiB, driver {facts['driver']}; {facts['fathom']}; "
        f"`{facts['command']}`; host: {facts['machine']['cpu']}, {facts['machine']['processors']} processors."
    )


def page(results, current):
    """current: the sources of the program that ran last; what another one found is marked so."""
    facts = results.sessions[-1]
    lines = [f"# On {facts['gpu']['name']}", "", "Made by `scripts/on_gpu`.", ""]
    if facts["phantom"]:
        lines += [
            "The GPU's side was played by `train --phantom-gpu` with segments placed elsewhere: this page shows that the script "
            "works and what the program asks of the allocator, not that predictions are right, nor any value or time.",
            "",
        ]
    used = {record["session"] for record in results.units.values()}
    lines += [session_line(number + 1, entry) for number, entry in enumerate(results.sessions) if number in used] + [""]
    for name, (title, body) in PIECES.items():
        records = results.of(name)
        if not records:
            continue
        older = sorted({r["sources"] for r in records.values()} - {current})
        lines += [f"## {title}", "", tally(records) + "."]
        if older:
            lines.append(f"Some rows are of a program of other sources ({', '.join(older)}).")
        lines += ["", *body(dict(records))]
    return "\n".join(lines).rstrip() + "\n"
