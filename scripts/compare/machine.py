"""What machine a measurement was made on: the processor, its instruction sets for matrix products, memory, load."""

import json
import os
import pathlib
import platform
import re
import subprocess

# The ones that decide how oneDNN multiplies, by the kernel's names.
MATRIX_FLAGS = ["avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8"]


def slug(name):
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((R|TM)\)|CPU|Processor|@.*", " ", name, flags=re.I).lower()).strip("-")


def describe():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    fields = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", text, flags=re.M))
    flags = fields.get("flags", "").split()
    memory = int(re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1)) * 1024
    name = fields.get("model name", platform.machine()).strip()
    return {
        "cpu": name,
        "slug": slug(name) or platform.machine(),
        "family": f"family {fields.get('cpu family', '?')}, model {fields.get('model', '?')}",
        "instruction_sets": [flag for flag in MATRIX_FLAGS if flag in flags],
        "missing_instruction_sets": [flag for flag in MATRIX_FLAGS if flag not in flags],
        "processors": os.cpu_count(),
        "memory_bytes": memory,
        "kernel": platform.release(),
        "load_at_start": os.getloadavg()[0],
        "python": platform.python_version(),
    }


def build_facts(binary):
    """What the program was built from: "commit", and "sources", a hash of the program's files alone."""
    try:
        return json.loads((pathlib.Path(binary).resolve().parent / "lib/built_from.json").read_text())
    except (OSError, ValueError):
        return {"commit": "unknown", "sources": "unknown"}


def fathom_version(binary):
    """What `fathom --version` says, and what it was built from."""
    said = subprocess.run([binary, "--version"], capture_output=True, text=True).stdout.strip().splitlines()
    built = build_facts(binary)
    return f"{said[0] if said else 'fathom'} (commit {built['commit']}, sources {built['sources']})"
