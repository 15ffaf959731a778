"""Numbers that only a GPU knows, as they are shown: "unknown", and not what they are taken to be."""
import functools
import re
import sys

import torch

WORD = "unknown"
# Where numbers are read for a log alone. Elsewhere a script may give them to what takes floats and nothing else: a
# compiled function, a writer of YAML.
LOGGING = ("transformers/trainer.py", "/trl/trainer/")
WIDTH = re.compile(r"(?P<align>.?[<>=^])?[-+ ]?z?#?0?(?P<width>\d+)?")
COMBINED = ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod",
            "pow", "rpow", "neg", "pos", "abs")


class Unknown(float):
    """Counts as what it is taken to be; what is made of it is unknown too."""

    def __repr__(self):
        return WORD

    __str__ = __repr__

    def __format__(self, how):
        found = WIDTH.match(how)
        align, width = (found["align"] or ">")[-1].replace("=", ">"), found["width"] or ""
        return format(WORD, align + width)

    def __round__(self, digits=None):
        return self if digits is not None else round(float(self))

    def __reduce__(self):
        return float, (float(self),)


def combined(name):
    original = getattr(float, name)

    def combine(self, *others):
        result = original(self, *others)
        return Unknown(result) if type(result) is float else result

    return combine


for _name in COMBINED:
    setattr(Unknown, f"__{_name}__", combined(f"__{_name}__"))


def follow_items(values):
    """Of tensors: what `item` gives to logs, and how they are written."""
    item, shown, formatted = torch.Tensor.item, torch._tensor_str._str, torch.Tensor.__format__

    def is_unknown(tensor):
        """Whether a tensor that lies on the GPU has numbers that nobody knows."""
        try:
            return tensor.is_cuda and tensor.numel() > 0 and not (values.follows(tensor) and values.is_known(tensor))
        except (RuntimeError, NotImplementedError):  # a tensor within a transformation, which has no storage
            return False

    @functools.wraps(item)
    def item_for_log(tensor):
        values.here.made_up = False
        number = item(tensor)
        if values.here.made_up and type(number) is float:
            name = sys._getframe(1).f_code.co_filename
            return Unknown(number) if any(each in name for each in LOGGING) else number
        return number

    @functools.wraps(formatted)
    def formatted_if_known(tensor, how):
        if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.dim() == 0 and is_unknown(tensor):
            return format(Unknown(), how)
        return formatted(tensor, how)

    def shown_from_cpu(tensor, *, tensor_contents=None):
        """LibTorch's Python writes a tensor where nobody follows values."""
        is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor_contents is None
        if not is_plain or not tensor.is_cuda:
            return shown(tensor, tensor_contents=tensor_contents)
        if is_unknown(tensor):
            return f"tensor({WORD}, size={tuple(tensor.shape)}, dtype={tensor.dtype}, device='{tensor.device}')"
        text = shown(tensor.detach().cpu())
        return f"{text[:-1]}, device='{tensor.device}')" if text.endswith(")") else text

    torch.Tensor.item, torch.Tensor.__format__ = item_for_log, formatted_if_known
    torch._tensor_str._str = shown_from_cpu
