"""The results of a GPU check as a page of tables."""


def mebibytes(count):
    return "—" if count is None else f"{count / 2**20:,.1f}"


def matrix_lines(results, phantom):
    lines = [
        "## Memory: predicted on the phantom GPU, then " + ("played on it" if phantom else "measured on the real one"),
        "",
        "MiB at the peak. Requested bytes must agree to the byte in total, per component and per phase; allocated and "
        "reserved must lie in the predicted range.",
        "",
        "| configuration | requested: predicted | measured | allocated | measured | reserved | measured | tokens/s "
        "| verdict |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for result in results:
        if "error" in result:
            lines.append(f"| {result['title']} | — | — | — | — | — | — | — | failed: {result['error'][:160]} |")
            continue
        figures, cells = result["figures"], []
        outside = [
            f"{name} {figures[name].get('difference', 0):+,} bytes"
            if figures[name]["inside"] is False
            else f"{name} not given"
            for name in ("requested", "allocated", "reserved")
            if not figures[name]["inside"]
        ]
        for name in ("requested", "allocated", "reserved"):
            cells += [mebibytes(figures[name]["predicted"]), mebibytes(figures[name]["measured"])]
        speed = result.get("tokens_per_second")
        lines.append(
            f"| {result['title']} | {' | '.join(cells)} | {f'{speed:,.0f}' if speed else '—'} | "
            f"{'as predicted' if result['passed'] else '; '.join(outside + result['wrong_components'])} |"
        )
    return lines + [""]


def test_lines(tests):
    lines = ["## Tests", "", "| binary | passed | failed | skipped |", "|---|---:|---:|---:|"]
    lines += [f"| {test['binary']} | {test['passed']} | {test['failed']} | {test['skipped']} |" for test in tests]
    return lines + [""]


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


def page(facts, tests, parity, results, peer):
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
            "The GPU's side was played by `train --phantom-gpu`: this page shows that the check works, not that the "
            "prediction is right.",
            "",
        ]
    passed = sum(result["passed"] for result in results)
    headline = f"{passed} of {len(results)} configurations as predicted"
    if facts["phantom"]:
        return "\n".join(lines + [headline + ".", ""] + matrix_lines(results, True)).rstrip() + "\n"
    lines += [
        f"{headline}; tests: {sum(test['passed'] for test in tests)} passed, "
        f"{sum(test['failed'] for test in tests)} failed.",
        "",
    ]
    lines += matrix_lines(results, False) + test_lines(tests) + parity_lines(parity) + peer_lines(peer)
    return "\n".join(lines).rstrip() + "\n"
