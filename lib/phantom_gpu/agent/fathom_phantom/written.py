"""Files that a script writes of numbers which nobody has computed: a mark beside them says so."""
import functools
import importlib.util
import os

import torch

MARK = "phantom-run.txt"  # by which fathom refuses the folder for a model's (lib/weights/folder.h)
TEXT = ("Written by a script on a phantom GPU (fathom phantom): what a GPU would have computed is not in the files of "
        "this folder.\n")


class Written:
    """values: of the script; from when on numbers that nobody knows have come to the host, files may hold them."""

    def __init__(self, values):
        self.values = values
        self.folders = set()

    def note(self, file):
        path = file if isinstance(file, (str, os.PathLike)) else getattr(file, "name", None)
        if not self.values.has_brought or not isinstance(path, (str, os.PathLike)):
            return
        folder = os.path.dirname(os.path.abspath(path))
        if folder not in self.folders:
            self.folders.add(folder)
            with open(os.path.join(folder, MARK), "w", encoding="utf-8") as mark:
                mark.write(TEXT)

    def follow(self, module, name):
        """A function of the module that writes its first argument to its second one."""
        original = getattr(module, name)

        @functools.wraps(original)
        def writes(what, file, *args, **kwargs):
            result = original(what, file, *args, **kwargs)
            self.note(file)
            return result

        setattr(module, name, writes)

    def begin(self):
        self.follow(torch, "save")
        torch.serialization.save = torch.save
        if importlib.util.find_spec("safetensors") is not None:
            import safetensors.torch
            self.follow(safetensors.torch, "serialize_file")
