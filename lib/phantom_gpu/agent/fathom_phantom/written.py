"""Files that a script writes of numbers which nobody has computed: a list of them beside them says so."""
import functools
import os

import torch

LIST = "phantom-files.txt"  # by which fathom refuses them as a model's (lib/weights/folder.h)
HEAD = ("Written by a script on a phantom GPU (fathom phantom), without the numbers that a GPU would have computed.\n"
        "Bytes, time of the last change in nanoseconds, name:\n")


class Written:
    """values: of the script; from when on numbers that nobody knows have come to the host, files may hold them."""

    def __init__(self, values):
        self.values = values
        self.files = set()

    def note(self, file):
        path = file if isinstance(file, (str, os.PathLike)) else getattr(file, "name", None)
        if self.values.has_brought and isinstance(path, (str, os.PathLike)):
            self.files.add(os.path.abspath(path))

    def follow(self, modules, name, keyword):
        """A function of the modules that writes its first argument to its second one, or to that of the keyword."""
        original = getattr(modules[0], name)

        @functools.wraps(original)
        def writes(*args, **kwargs):
            result = original(*args, **kwargs)
            self.note(args[1] if len(args) > 1 else kwargs.get(keyword))
            return result

        for module in modules:
            setattr(module, name, writes)

    def begin(self):
        self.follow((torch, torch.serialization), "save", "f")
        try:
            import safetensors.torch
        except Exception:  # it may be there and not work, of which the script hears when it needs it
            return
        self.follow((safetensors.torch,), "serialize_file", "filename")

    def list(self):
        """Writes the lists of those that are still there; their folders."""
        folders = {}
        for path in sorted(self.files):
            if os.path.isfile(path):
                folders.setdefault(os.path.dirname(path), []).append(path)
        told = []
        for folder, paths in folders.items():
            try:
                with open(os.path.join(folder, LIST), "a", encoding="utf-8") as file:
                    if file.tell() == 0:
                        file.write(HEAD)
                    for path in paths:
                        status = os.stat(path)
                        file.write(f"{status.st_size} {status.st_mtime_ns} {os.path.basename(path)}\n")
                told.append(folder)
            except OSError:
                continue  # a folder in which only its files may be written
        return told
