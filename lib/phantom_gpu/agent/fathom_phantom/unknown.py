"""Numbers that only a GPU knows, as a script writes them: "unknown", and not what they are taken to be."""
import re

import torch

WORD = "unknown"
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
    """Of tensors: what `item` gives, and how they are written."""
    item, shown = torch.Tensor.item, torch._tensor_str._str

    def known_item(tensor):
        values.here.made_up = False
        number = item(tensor)
        return Unknown(number) if values.here.made_up and type(number) is float else number

    def shown_from_cpu(tensor, *, tensor_contents=None):
        """LibTorch's Python writes a tensor where nobody follows values."""
        is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor_contents is None
        if not is_plain or not tensor.is_cuda:
            return shown(tensor, tensor_contents=tensor_contents)
        if not values.follows(tensor) or not values.is_known(tensor):
            return f"tensor({WORD}, size={tuple(tensor.shape)}, dtype={tensor.dtype}, device='{tensor.device}')"
        text = shown(tensor.detach().cpu())
        return f"{text[:-1]}, device='{tensor.device}')" if text.endswith(")") else text

    torch.Tensor.item, torch._tensor_str._str = known_item, shown_from_cpu
