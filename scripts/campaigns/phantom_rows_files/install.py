"""The folder where what the rows ran on is installed, and the checkpoints of holes that they train."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

from campaign import ROOT

FILES = pathlib.Path(__file__).resolve().parent
MODELS = json.loads((FILES / "models.json").read_text())
# The benchmark's tables were made with several versions of some packages: those that differ from requirements.txt lie
# in a folder of their own, which comes before the others.
SETS = {"a100_80gb": None, "a100_80gb_granite": "powerlm", "a100_80gb_liger": "liger"}
FLASH = {None: "2.7.3", "liger": "2.7.0.post2"}  # flash-attn, built here; powerlm's was 2.6.3, and 2.7.3 does


def run(command, **settings):
    done = subprocess.run([str(each) for each in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **settings)
    if done.returncode != 0:
        raise SystemExit(f"phantom_rows: {' '.join(map(str, command))}\n{done.stdout[-8000:]}")
    return done.stdout


class Place:
    """The folder where everything is installed."""

    def __init__(self, folder):
        self.folder = folder
        self.python = folder / "python" / "bin" / "python"

    def pip(self, *arguments):
        run([self.python, "-m", "pip", "--disable-pip-version-check", *arguments, "--quiet"])

    def ask(self, expression):
        return run([self.python, "-c", f"import sysconfig; print({expression})"]).strip()

    def install(self):
        if not self.python.exists():
            run([sys.executable, "-m", "venv", self.folder / "python"])
        packages = pathlib.Path(self.ask("sysconfig.get_path('purelib')"))
        self.install_set(None, packages)
        for each in filter(None, SETS.values()):
            self.install_set(each, self.folder / each, "--no-deps", "--upgrade", "--target", self.folder / each)

    def install_set(self, name, folder, *options):
        """Unless what the set requires is there already: a copy of it lies beside the packages."""
        required = FILES / (f"requirements-{name}.txt" if name else "requirements.txt")
        installed = folder / "phantom-rows-requirements.txt"
        if not installed.exists() or installed.read_text() != required.read_text():
            print(f"phantom_rows: installing {required.name}" + ("" if name else ", 2.8 GB"), flush=True)
            self.pip("install", *options, "-r", required)
            shutil.copyfile(required, installed)
        if name in FLASH and not (folder / "flash_attn").exists():
            self.build_flash(FLASH[name], folder)

    def build_flash(self, version, folder):
        """flash-attn without kernels: its host code by g++ alone, its Python as it is."""
        print(f"phantom_rows: building the host code of flash-attn {version}", flush=True)
        packages = pathlib.Path(self.ask("sysconfig.get_path('purelib')"))
        with tempfile.TemporaryDirectory() as work:
            self.pip("download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", work,
                     f"flash-attn=={version}")
            with tarfile.open(next(pathlib.Path(work).glob("*.tar.gz"))) as archive:
                archive.extractall(work, filter="data")
            source = next(each for each in pathlib.Path(work).iterdir() if each.is_dir())
            code = source / "csrc"
            torch = packages / "torch"
            includes = [code / "flash_attn", code / "flash_attn" / "src", code / "cutlass" / "include",
                        torch / "include", torch / "include" / "torch" / "csrc" / "api" / "include",
                        self.ask("sysconfig.get_path('include')"), *sorted(packages.glob("nvidia/*/include"))]
            run(["g++", "-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-D_GLIBCXX_USE_CXX11_ABI=0",
                 "-DTORCH_EXTENSION_NAME=flash_attn_2_cuda", *(f"-I{each}" for each in includes),
                 code / "flash_attn" / "flash_api.cpp", FILES / "flash_kernels.cpp", f"-L{torch / 'lib'}",
                 "-lc10", "-lc10_cuda", "-ltorch", "-ltorch_cpu", "-ltorch_python",
                 "-o", folder / "flash_attn_2_cuda.so"])
            shutil.copytree(source / "flash_attn.egg-info", folder / "flash_attn.egg-info", dirs_exist_ok=True)
            shutil.copytree(source / "flash_attn", folder / "flash_attn")

    def environment(self, table):
        """Of a Python that has the versions of the table."""
        name = SETS[table]
        return {**os.environ, "PYTHONPATH": str(self.folder / name) if name else "", "OMP_NUM_THREADS": "1",
                "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "HF_HOME": str(self.folder / "huggingface")}

    def checkpoint(self, row):
        model = MODELS[row["model"]]
        folder = self.folder / "checkpoints" / row["model"].split("/")[1]
        if not (folder / "config.json").exists():
            run([self.python, FILES / "make_checkpoint.py", ROOT / model["shape"], folder, model["file_gb"]],
                env=self.environment(row["table"]))
        return folder
