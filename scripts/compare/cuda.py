"""Which GPU this machine has and where its LibTorch is, without loading either into this process for long."""

import ctypes
import dataclasses
import importlib.util
import os
import pathlib
import re
import subprocess

TORCH_VERSION = "2.11"
COMPUTE_MAJOR, COMPUTE_MINOR, MULTIPROCESSORS = 75, 76, 16  # CUdevice_attribute


@dataclasses.dataclass
class Gpu:
    name: str
    compute_capability: str
    multiprocessors: int
    total_bytes: int


def find_gpu():
    """The driver's device 0, or None and the reason why there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "no NVIDIA driver (libcuda.so.1) was found"
    if driver.cuInit(0) != 0:
        return None, "the NVIDIA driver does not start (cuInit failed)"
    count = ctypes.c_int()
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return None, "the NVIDIA driver shows no device"

    def attribute(number):
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, 0)
        return value.value

    name, total = ctypes.create_string_buffer(256), ctypes.c_size_t()
    driver.cuDeviceGetName(name, 256, 0)
    driver.cuDeviceTotalMem_v2(ctypes.byref(total), 0)
    return Gpu(
        name.value.decode(),
        f"{attribute(COMPUTE_MAJOR)}.{attribute(COMPUTE_MINOR)}",
        attribute(MULTIPROCESSORS),
        total.value,
    ), ""


def find_torch(root):
    """The folder of LibTorch 2.11: $FATHOM_TORCH, python3's torch, or the one that scripts/setup fetched. Or None."""
    candidates = [os.environ.get("FATHOM_TORCH", "")]
    spec = importlib.util.find_spec("torch")
    candidates += spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    candidates += sorted(map(str, root.glob(".deps/python/lib/python3*/site-packages/torch")))
    for folder in map(pathlib.Path, filter(None, candidates)):
        header = folder / "include/torch/headeronly/version.h"
        if (folder / "lib/libtorch_cpu.so").exists() and header.exists():
            numbers = dict(re.findall(r"#define TORCH_VERSION_(MAJOR|MINOR) (\d+)", header.read_text()))
            if f"{numbers.get('MAJOR')}.{numbers.get('MINOR')}" == TORCH_VERSION:
                return folder
    return None


def listed_gpus(list_file):
    """The entries of configs/gpus.yaml: name to its keys, as text."""
    entries = {}
    for line in list_file.read_text().splitlines() if list_file.exists() else []:
        if found := re.match(r"([\w-]+):\s*$", line):
            entries[found.group(1)] = {}
        elif entries and (found := re.match(r"\s+(\w+):\s*\"?(.*?)\"?\s*$", line)):
            entries[next(reversed(entries))][found.group(1)] = found.group(2)
    return entries


def listed_gpu(name, list_file):
    """What the entry says of the GPU, letter case aside. Or None."""
    for known, entry in listed_gpus(list_file).items():
        if known.lower() == name.lower():
            total_bytes = int(float(entry["memory_gib"]) * 2**30)
            return Gpu(f"phantom {known}", entry["compute_capability"], int(entry["multiprocessors"]), total_bytes)
    return None


def listed_name(gpu, list_file):
    """The entry that this GPU is: by the driver's name, else by capability, multiprocessors and memory. Or None."""
    entries = listed_gpus(list_file)
    for name, entry in entries.items():
        if entry.get("product") == gpu.name:
            return name
    for name, entry in entries.items():
        alike = (entry.get("compute_capability"), entry.get("multiprocessors")) == (
            gpu.compute_capability,
            str(gpu.multiprocessors),
        )
        if alike and abs(float(entry.get("memory_gib", 0)) * 2**30 / gpu.total_bytes - 1) < 0.03:
            return name
    return None


def driver_version():
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
        )
        return said.stdout.strip().splitlines()[0] if said.returncode == 0 and said.stdout.strip() else "unknown"
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"


def run_environment(torch, build):
    """Where carried binaries find LibTorch and the libraries that travel with them."""
    folders = [torch / "lib", build / "lib", torch.parent / "nvidia/cu13/lib"]
    paths = [str(folder) for folder in folders if folder.exists()] + [os.environ.get("LD_LIBRARY_PATH", "")]
    return {**os.environ, "FATHOM_TORCH": str(torch), "LD_LIBRARY_PATH": ":".join(filter(None, paths))}
