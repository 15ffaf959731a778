"""What campaigns share: where the project and its program lie, how a run is made and read. It is imported first, as it makes the
parts in scripts/ found that campaigns share with scripts/on_gpu: compare, gpu, golden."""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "fathom"
sys.path.insert(1, str(ROOT / "scripts"))
sys.dont_write_bytecode = True


def new_parser(about):
    """Of a script that says by `about` what it is and how it is used."""
    return argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def run(*command):
    """The command, done in ROOT, with stdout and stderr as text; its paths are those of where the campaign was called. Where it
    fails, the campaign ends with what it said."""
    command = [str(word.absolute() if isinstance(word, pathlib.Path) else word) for word in command]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def memory_of(run_folder):
    return json.loads((run_folder / "memory.json").read_text(encoding="utf-8"))


def metrics_of(run_folder, key):
    """What the lines of the run's metrics say of `key`, in the order of steps."""
    lines = map(json.loads, (run_folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [line[key] for line in lines if key in line]
