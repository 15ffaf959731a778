"""Python runs this as it starts: puts the stubs under the torch that it would import, watches for that import, then
runs the sitecustomize that would have come without this one.

FATHOM_PHANTOM_FOLDER: of the stub libraries, for CUDA 13; those for CUDA 12 are in cuda12 below it.
FATHOM_PHANTOM_REPORT: the folder in which the script's processes tell of themselves; its file "facts" is in lines.
"""
import glob
import importlib.machinery
import importlib.util
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# A script may clear its environment.
SETTINGS = {name: value for name, value in os.environ.items() if name.startswith("FATHOM_PHANTOM_")}


def tell(what):
    """Of this process: a line behind those of all others (lib/phantom_gpu/follow)."""
    try:
        file = os.open(os.path.join(SETTINGS["FATHOM_PHANTOM_REPORT"], "facts"), os.O_WRONLY | os.O_APPEND)
    except OSError:  # fathom has ended
        return
    os.write(file, f"{what} {os.getpid()}\n".encode())
    os.close(file)


def stubs_for(spec):
    """The folder of the stub libraries for a torch, by its version.py; "" where there are none."""
    try:
        with open(os.path.join(os.path.dirname(spec.origin), "version.py"), encoding="utf-8") as file:
            cuda = re.search(r"^cuda\b.*=\s*'(\d+)", file.read(), re.MULTILINE)
    except (OSError, TypeError, AttributeError):
        return ""
    folders = {"13": "", "12": "cuda12"}
    if cuda is None or cuda[1] not in folders:
        return ""
    folder = os.path.join(SETTINGS["FATHOM_PHANTOM_FOLDER"], folders[cuda[1]])
    return os.path.normpath(folder) if os.path.exists(os.path.join(folder, f"libcudart.so.{cuda[1]}")) else ""


def preloaded():
    return [each for each in os.environ.get("LD_PRELOAD", "").split(":") if each]


def missing_stubs(spec):
    """The folder of stubs that a torch needs and this process has not; "" where it has them, or there are none."""
    folder = stubs_for(spec)
    return "" if folder and os.path.join(folder, "libcuda.so.1") in preloaded() else folder


def start_over_with(folder):
    """This Python again, with stubs in the place of CUDA's libraries: the dynamic loader takes them as it starts."""
    libraries = sorted(glob.glob(os.path.join(glob.escape(folder), "lib*.so.*")))
    given = [each for each in preloaded() if "fathom-phantom" not in each or each.endswith("/follow.so")]
    os.environ["LD_PRELOAD"] = ":".join([*libraries, *given])
    os.environ["TRITON_LIBCUDA_PATH"] = folder
    with open("/proc/self/cmdline", "rb") as file:
        words = file.read().split(b"\0")[:-1]
    os.execv(sys.executable, [sys.executable, *words[1:]])


class Watcher:
    """Finds torch as ever, and has fathom's agent attached to it once it is imported.

    Libraries look for torch before they import it, so it goes on watching until torch has been executed.
    """
    is_asking = False  # the finders behind it

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "torch" or cls.is_asking:
            return None
        cls.is_asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            cls.is_asking = False
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            if missing_stubs(spec):
                tell("late")
                raise ImportError("fathom phantom: this torch lies where Python did not look for it as it started; "
                                  "name its folder in PYTHONPATH")
            tell("torch")
            execute(module)
            sys.meta_path.remove(cls)
            sys.path.insert(0, HERE)
            try:
                from fathom_phantom import agent
            finally:
                sys.path.remove(HERE)
            agent.attach(SETTINGS)

        spec.loader.exec_module = exec_module
        return spec


sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != HERE]
if SETTINGS.get("FATHOM_PHANTOM_REPORT"):
    tell("agent")
    _stubs = missing_stubs(importlib.machinery.PathFinder.find_spec("torch"))
    if _stubs:
        start_over_with(_stubs)
    sys.meta_path.insert(0, Watcher)

_next = importlib.machinery.PathFinder.find_spec("sitecustomize")
if _next is not None and _next.loader is not None:
    _module = importlib.util.module_from_spec(_next)
    _next.loader.exec_module(_module)
