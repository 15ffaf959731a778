"""Plays one of scripts/campaigns/phantom_scripts_files on a phantom GPU, for phantom_scripts and phantom_versions."""
import collections
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from campaign import PROGRAM, ROOT
from compare.machine import fathom_version

FILES = ROOT / "scripts" / "campaigns" / "phantom_scripts_files"
LONGEST = 900  # seconds that a script may take

# gpu: as configs/gpus.yaml calls it. refused: words of the error with which it must end. needs: packages that would not
# go with those of requirements.txt, and lie above them for this script alone.
Row = collections.namedtuple("Row", ("name", "gpu", "refused", "needs"), defaults=("A100-80GB", "", ()))


def play(python, row):
    """What fathom tells of the script, with how it ended and what the host gave for it."""
    environment = {**os.environ, "FATHOM_MODELS": str(ROOT / "configs" / "models"), "OMP_NUM_THREADS": "1",
                   "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for source in FILES.glob("*.py"):
            shutil.copy(source, work)
        environment["TMPDIR"] = str(work / "tmp")  # caches of compilers, too, are the script's own
        (work / "tmp").mkdir()
        start = time.monotonic()
        with open(work / "answer", "w+b") as answer, open(work / "words", "w+b") as words:
            process = subprocess.Popen(
                ["timeout", str(LONGEST), PROGRAM, "phantom", "--gpu", row.gpu, "--json", "--",
                 python, f"{row.name}.py"], cwd=work, env=environment, stdout=answer, stderr=words)
            _, _, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        text = (work / "answer").read_text(encoding="utf-8")
        said = (work / "words").read_text(encoding="utf-8", errors="replace").replace("\r", "\n")
    found = json.loads(text) if text else {"exit_status": None, "fits": False, "processes": []}
    found.pop("command", None)  # which names a folder of the machine's
    for process in found["processes"]:
        process["written"] = [os.path.relpath(each, work) for each in process["written"]]
    end = ended(row, found, said)
    if not end:
        print(f"{row.name} has ended otherwise than expected:\n{said[-4000:]}", flush=True)
    return {**found, "end": end, "error": "" if end == "works" else error_in(said, row.refused),
            "host_seconds": round(seconds), "host_bytes": usage.ru_maxrss * 1024,
            "day": time.strftime("%Y-%m-%d"), "program": fathom_version(PROGRAM)}


def error_in(said, refused):
    """The words with which the script ended: what a traceback ends with, or what fathom says by itself."""
    lines = [line.strip() for line in said.splitlines() if refused in line]
    errors = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception", "Exit")) and ":" in line]
    return (errors or [line for line in lines if line.startswith("error: ")] or lines or [""])[-1]


def ended(row, found, said):
    """In a word; "" where it is not as the row expects."""
    if row.refused:
        return "refused" if found["exit_status"] != 0 and row.refused in said else ""
    if found["exit_status"] == 0:
        return "works"
    return "out of memory" if found["processes"] and found["fits"] is False else ""
