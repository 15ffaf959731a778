"""Runs the tests that need a GPU (names ending in _CUDA) in every test binary, and counts what became of them."""

import re
import subprocess


def count(text, word):
    found = re.search(rf"^\[\s*{word}\s*\] (\d+) tests?\b", text, flags=re.M)
    return int(found.group(1)) if found else 0


def run(build, check, say):
    """Binaries without such a test are left out; one that cannot start counts as a failure."""
    results = []
    for binary in sorted(build.glob("*_test")):
        log = check.logs / f"{binary.name}.log"
        with open(log, "w") as out:
            try:
                code = subprocess.run(
                    [binary, "--gtest_filter=*_CUDA*"],
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env=check.environment,
                    timeout=600,
                ).returncode
            except (subprocess.TimeoutExpired, OSError) as error:
                out.write(str(error))
                code = 1
        text = log.read_text(errors="replace")
        passed, failed, skipped = (count(text, word) for word in ("PASSED", "FAILED", "SKIPPED"))
        if code == 0 and passed + skipped == 0:
            continue
        results.append(
            {"binary": binary.name, "passed": passed, "failed": max(failed, int(code != 0)), "skipped": skipped}
        )
        say(f"{binary.name}: {passed} passed, {results[-1]['failed']} failed, {skipped} skipped")
    return results
