"""Values of small tensors on a phantom GPU.

Kernels compute nothing there, but device memory can be read, and what a script copies to it lies in it. An operator
whose inputs are small and known is computed again on the CPU, over the same bytes; all else is unknown. What a script
reads of an unknown value is told with the line that read it, for memory may depend on it from there on: it is taken to
be finite, true for no condition, and where it decides a size, as large as it can be.
"""
import ctypes
import math
import sys

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from fathom_phantom import collectives
from fathom_phantom.places import frames_from, line_of

# Elements of a tensor that is followed: masks and positions may be large, floating-point numbers decide as scalars.
LIMIT, LIMIT_OF_FLOATS = 1 << 17, 1 << 12
# Results that are no function of the inputs, or that no CPU gives likewise.
RANDOM = ("rand", "bernoulli", "multinomial", "dropout", "normal", "exponential", "uniform", "poisson", "geometric",
          "attention")
EMPTY = ("aten::empty", "aten::new_empty", "aten::empty_strided", "aten::new_empty_strided", "aten::empty_like")
# The sizes of their results depend on values.
SIZED = ("aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive",
         "aten::repeat_interleave", "aten::bincount")
# What they make may be there for a kernel to write into, of which no operator tells: Triton's, and those of extensions.
FILLS = ("aten::zeros", "aten::ones", "aten::full", "aten::zeros_like", "aten::ones_like", "aten::full_like",
         "aten::new_zeros", "aten::new_ones", "aten::new_full", "aten::zero_", "aten::fill_")
# What an operand of these must be for the other not to count.
DECIDING = {"aten::bitwise_or": True, "aten::logical_or": True, "aten::bitwise_and": 0, "aten::logical_and": 0,
            "aten::mul": 0}
# Of which something comes to the CPU, or is known whatever they are given.
SPECIAL = ("aten::_local_scalar_dense", "aten::equal", "aten::_to_copy", "aten::copy_", "aten::eq", "aten::ne",
           "aten::isnan", "aten::isinf")
# GradScaler's look for overflow: none is found, in what nobody knows.
OVERFLOW = "aten::_amp_foreach_non_finite_check_and_unscale_"
ASSUMED, READ = "assumed", "read"


def is_small(tensor):
    count = tensor.numel()
    return count <= LIMIT_OF_FLOATS or (count <= LIMIT and not tensor.is_floating_point())


def storage(tensor):
    return tensor.untyped_storage().data_ptr()


def on_cpu(tensor):
    """The same bytes as a tensor of the CPU."""
    if not tensor.is_cuda:
        return tensor
    size = tensor.untyped_storage().nbytes()
    if size == 0:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    raw = torch.frombuffer((ctypes.c_char * size).from_address(storage(tensor)), dtype=torch.uint8)
    return torch.empty(0, dtype=tensor.dtype).set_(raw.untyped_storage(), tensor.storage_offset(), tensor.size(),
                                                   tensor.stride())


def moved(value):
    """What an operator is given, for the CPU."""
    if isinstance(value, torch.Tensor):
        return on_cpu(value)
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if isinstance(value, (list, tuple)):
        return type(value)(moved(each) for each in value)
    if isinstance(value, dict):
        return {key: moved(each) for key, each in value.items()}
    return value


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)


def is_mask(value):
    return isinstance(value, torch.Tensor) and value.dtype in (torch.bool, torch.uint8)


class Rule:
    """What is known of an operator by its schema."""

    def __init__(self, func):
        schema = func._schema
        self.name = schema.name
        self.is_view = func.is_view
        self.sent, self.is_collective = collectives.sent_by(self.name)
        # Of one argument alone, what is sent is what is changed; `send` changes nothing.
        self.changes_sent = self.sent == 0 and self.name.endswith("_")
        self.writes = [(i, argument.name) for i, argument in enumerate(schema.arguments)
                       if argument.alias_info is not None and argument.alias_info.is_write]
        self.overwrites = {argument.name for argument in schema.arguments if argument.is_out}
        if self.name in ("aten::copy_", "aten::fill_", "aten::zero_"):
            self.overwrites.add("self")
        self.indexes = self.name.startswith(("aten::index", "aten::_index"))
        # Neither comes anything of it to the CPU, nor is anything known of it beside unknown inputs.
        self.is_plain = (self.name.startswith("aten::") and self.name not in SPECIAL and self.name not in SIZED
                         and self.name.rstrip("_") not in DECIDING and self.name != OVERFLOW
                         and not self.overwrites and not self.indexes)
        self.repeats = (self.name.startswith("aten::") and self.name not in EMPTY
                        and not any(word in self.name for word in RANDOM))


class Values(TorchDispatchMode):
    def __init__(self, stubs):
        super().__init__()
        self.launches = stubs.phantom_launches_of_all
        self.launches.restype = ctypes.c_long  # how many kernels and copies there have been
        self.launches_seen = 0    # by the operators that were called
        self.known = set()   # storages whose bytes are as a GPU would have them
        self.filled = set()  # of them, those that one of FILLS has made so
        self.rules = {}
        self.told = {}      # (place, what, how) -> times
        self.current = None  # the operator that is called
        self.follows_all = False  # whatever its size
        self.collectives = collectives.Collectives(stubs, self.settle_storage)

    @classmethod
    def ignore_compile_internals(cls):
        return True  # torch.compile compiles as ever

    def tell(self, what, how):
        key = (line_of(frames_from(sys._getframe(1))), what, how)
        self.told[key] = self.told.get(key, 0) + 1

    def is_known(self, tensor):
        return not tensor.is_cuda or tensor.numel() == 0 or storage(tensor) in self.known

    def settle(self, tensor, known):
        if tensor.is_cuda and tensor.numel() > 0:
            self.settle_storage(storage(tensor), known)

    def settle_storage(self, address, known):
        if known:
            self.known.add(address)
        else:
            self.known.discard(address)

    def follows(self, tensor):
        return self.follows_all or is_small(tensor)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if FakeTensor in types:  # which have no values
            return func(*args, **kwargs)
        if any(each.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ for each in types):
            return NotImplemented  # tensors of tensors, as DTensor: what they call in turn comes here again
        rule = self.rules.get(func)
        if rule is None:
            rule = self.rules[func] = Rule(func)
        if rule.name.startswith(collectives.FUNCTIONAL) and not rule.is_collective:
            return func(*args, **kwargs)  # the same numbers, in another tensor
        if rule.is_view:
            # What torch.tensor makes a tensor of comes by a way that no mode sees.
            if rule.name in ("aten::lift_fresh", "aten::lift"):
                self.settle(args[0], self.follows(args[0]))
            return func(*args, **kwargs)
        if self.launches() != self.launches_seen:
            self.known -= self.filled
            self.filled.clear()
        self.current = rule.name
        if rule.is_collective:
            result = self.exchanged(func, rule, args, kwargs)
        elif rule.is_plain and self.has_unknown(args):
            result = func(*args, **kwargs)
            for each in tensors_in(result):
                self.settle(each, False)
            for i, _ in rule.writes:  # lists of tensors that are changed in place are no results
                for each in tensors_in(args[i] if i < len(args) else None):
                    self.settle(each, False)
        else:
            result = self.called(func, rule, args, kwargs)
        self.current = None
        self.launches_seen = self.launches()
        return result

    def has_unknown(self, args):
        """As far as the first tensors tell, which they do of most calls."""
        for each in args:
            first = each[0] if isinstance(each, (list, tuple)) and each else each
            if isinstance(first, torch.Tensor) and first.is_cuda and not (self.follows(first) and self.is_known(first)):
                return True
        return False

    def called(self, func, rule, args, kwargs):
        if rule.name == "aten::_local_scalar_dense" and args[0].is_cuda:
            return self.scalar(args[0])
        if rule.name == "aten::equal" and args[0].is_cuda:
            return self.equal(func, args)
        if rule.indexes and len(args) > 1 and isinstance(args[1], (list, tuple)) and any(map(is_mask, args[1])):
            args = (args[0], self.indices(args[1], args[0].device), *args[2:])
        inputs = [*tensors_in(args), *tensors_in(list(kwargs.values()))]
        if rule.name in SIZED and any(each.is_cuda for each in inputs):
            return self.sized(func, rule.name, args, kwargs, inputs)
        written = [args[i] if i < len(args) else kwargs.get(name) for i, name in rule.writes]
        overwritten = {id(each) for (_, name), each in zip(rule.writes, written) if name in rule.overwrites}
        computes = rule.repeats and all(self.follows(each) and (id(each) in overwritten or self.is_known(each))
                                        for each in inputs)
        assumed = None if computes else self.assumed(rule.name.rstrip("_"), args)
        if computes and self.follows_all:  # copies of any size are made, too
            result = self.collectives.vouching(lambda: func(*args, **kwargs), True)
        else:
            result = func(*args, **kwargs)
        results, changed = list(tensors_in(result)), list(tensors_in(written))
        if not any(each.is_cuda for each in (*results, *changed)):
            if any(each.is_cuda for each in inputs):
                self.read(func, args, kwargs, inputs, results or changed)
            return result
        if rule.name == OVERFLOW:
            for each in args[0]:
                self.settle(each, False)
            return result
        known = all(self.follows(each) for each in results)
        if known and computes:
            known = self.compute(func, rule.name, args, kwargs, results, changed)
        elif known and assumed is not None:
            for each in results:  # those that are changed in place among them
                on_cpu(each).fill_(assumed)
        else:
            known = False
        for each in (*results, *changed):
            self.settle(each, known)
            if known and rule.name in FILLS and each.is_cuda:
                self.filled.add(storage(each))
        return result

    def exchanged(self, func, rule, args, kwargs):
        """What processes send each other."""
        given = list(tensors_in(args[rule.sent])) if rule.sent is not None else []
        changed = [each for i, argument in enumerate(args) if i != rule.sent or rule.changes_sent
                   for each in tensors_in(argument)]

        def changed_in(result):
            there = [*changed, *tensors_in(result)]
            return {each.data_ptr(): storage(each) for each in there if each.is_cuda and each.numel() > 0}

        if not any(each.is_cuda for each in (*given, *changed)):
            return func(*args, **kwargs)
        known = all(self.is_known(each) for each in given)
        result, addresses, known = self.collectives.play(lambda: func(*args, **kwargs), rule.name, known, changed_in)
        for address in addresses.values():
            self.settle_storage(address, known)
        return result

    def assumed(self, name, args):
        """The result that one operand decides, or that follows where numbers are finite; None: it is not known.

        x == x, x != x, and |x| beside infinity; what is true or anything, what is false, or zero times anything.
        """
        if name in ("aten::isnan", "aten::isinf"):
            return False
        if name in ("aten::eq", "aten::ne"):
            is_same, infinite = args[0] is args[1], isinstance(args[1], float) and math.isinf(args[1])
            return (name == "aten::eq") == is_same if is_same or infinite else None
        decides = DECIDING.get(name)
        for each in args[:2] if decides is not None else ():
            whole = isinstance(each, torch.Tensor) and not each.is_floating_point() and each.numel() > 0
            if whole and is_small(each) and self.is_known(each) and on_cpu(each).eq(decides).all():
                return decides
        return None

    def compute(self, func, name, args, kwargs, results, changed):
        """Whether the CPU has made the results what a GPU would have made them."""
        try:
            if name == "aten::copy_":
                on_cpu(args[0]).copy_(moved(args[1]))
                return True
            again = func(*moved(args), **moved(kwargs))
            for there, here in zip(results, tensors_in(again)):
                if there.is_cuda and there.numel() and not any(there is each for each in changed):
                    on_cpu(there).copy_(here)
            return True
        except (RuntimeError, NotImplementedError):  # it has no such operator
            return False

    def scalar(self, tensor):
        if self.is_known(tensor):
            return on_cpu(tensor).item()
        self.tell("a number", READ)
        return 1.0 if tensor.is_floating_point() else False if tensor.dtype == torch.bool else 0

    def equal(self, func, args):
        if all(self.is_known(each) for each in args[:2]):
            return func(*moved(args[:2]))
        self.tell("whether numbers are equal", READ)
        return False

    def read(self, func, args, kwargs, inputs, here):
        """What has come to the CPU, where the stubs have made it zeros."""
        if all(self.is_known(each) for each in inputs):
            computed = args[1] if func._schema.name == "aten::copy_" else func(*moved(args), **moved(kwargs))
            for to, value in zip(here, tensors_in(moved(computed))):
                to.copy_(value)
            return
        for each in here:
            if each.numel() and is_small(each):
                each.fill_(1 if each.is_floating_point() else 0)
            if each.numel():
                self.tell(f"{each.numel():,} numbers", READ)

    def put(self, tensor, device):
        there = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
        if there.numel():
            on_cpu(there).copy_(tensor)
        self.settle(there, True)
        return there

    def nonzero(self, mask, device):
        if is_small(mask) and self.is_known(mask):
            return self.put(on_cpu(mask).nonzero(), device)
        self.tell(f"how many of {mask.numel():,} are true: all", ASSUMED)
        result = torch.empty((mask.numel(), mask.dim()), dtype=torch.long, device=device)
        if is_small(result) and result.numel():
            on_cpu(result).copy_(torch.ones(mask.shape, dtype=torch.bool).nonzero())
        self.settle(result, is_small(result))
        return result

    def indices(self, given, device):
        """Of x[mask], as LibTorch makes them: where the mask is true, by dimension."""
        made = []
        for each in given:
            if is_mask(each):
                rows = self.nonzero(each, device)
                made.extend(rows.select(1, dimension) for dimension in range(each.dim()))
            else:
                made.append(each)
        return made

    def sized(self, func, name, args, kwargs, inputs):
        """Operators whose results' sizes depend on values."""
        device = next(each.device for each in inputs if each.is_cuda)
        if name == "aten::nonzero":
            return self.nonzero(args[0], device)
        if all(is_small(each) and self.is_known(each) for each in inputs):
            result = func(*moved(args), **moved(kwargs))
            there = tuple(self.put(each, device) for each in tensors_in(result))
            return there[0] if isinstance(result, torch.Tensor) else there
        if name == "aten::masked_select":
            mask = torch.broadcast_to(args[1], torch.broadcast_shapes(args[0].shape, args[1].shape))
            result = torch.empty(self.nonzero(mask, device).shape[0], dtype=args[0].dtype, device=device)
            self.settle(result, False)
            return result
        raise RuntimeError(f"fathom phantom: the size of what {name} makes depends on numbers that only a GPU knows "
                           f"({line_of(frames_from(sys._getframe(1)))})")
