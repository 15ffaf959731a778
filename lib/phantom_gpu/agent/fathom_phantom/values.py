"""Values of small tensors on a phantom GPU.

Kernels compute nothing there, but device memory can be read, and what a script copies to it lies in it. An operator
whose inputs are small and known is computed again on the CPU, over the same bytes; all else is unknown. What a script
reads of an unknown value is told with the line that read it, for memory may depend on it from there on: it is taken to
be finite, true for no condition, and where it decides a size, as large as it can be.
"""
import contextlib
import ctypes
import math
import sys
import threading

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from fathom_phantom import collectives
from fathom_phantom.places import frames_from, is_within, line_of
from fathom_phantom.rules import ASKED, COUNTED, DECIDING, FILLS, LIFTS, OVERFLOW, PLAIN, SHAPED, SIZED, Rule

# Elements of a tensor that is followed: masks and positions may be large, floating-point numbers decide as scalars.
LIMIT, LIMIT_OF_FLOATS = 1 << 17, 1 << 12
ASSUMED, READ = "assumed", "read"
# Where a truth value says whether to go on: it does, until lengths end it.
GOES_ON = ("transformers/generation/utils.py", "_beam_search")


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


class Here(threading.local):
    """Of a thread."""

    def __init__(self):
        self.counts = []          # that the operator which is called will ask the GPU for
        self.follows_all = False  # tensors of any size
        self.made_up = False      # the number that was read last


class Values(TorchDispatchMode):
    """stubs: of the process, which keep what is known (stubs/phantom.h). calls: the library of calls.cpp, or none."""

    def __init__(self, stubs, calls):
        super().__init__()
        self.stubs = stubs
        self.calls = calls
        self.rules = {}
        self.told = {}      # (place, what, how) -> times
        self.collectives = collectives.Collectives(stubs, self.settle_storage)
        self.here = Here()
        self.has_brought = False  # numbers that nobody knows to the host

    def begin(self):
        self.__enter__()
        if self.calls:
            for name in LIFTS:  # views, which are not asked about else
                self.calls.phantom_calls_are(name.encode(), b"", ASKED)
            self.calls.phantom_calls_begin(LIMIT, LIMIT_OF_FLOATS)

    def end(self):
        if self.calls:
            self.calls.phantom_calls_here(False)
        else:
            self.__exit__(None, None, None)

    @contextlib.contextmanager
    def following(self):
        """What this thread of the script calls."""
        if not self.calls:
            with self:
                yield
            return
        self.calls.phantom_calls_here(True)
        yield

    @contextlib.contextmanager
    def following_all(self):
        """On this thread, tensors of any size."""
        before = self.here.follows_all
        self.follow_all(True)
        try:
            yield
        finally:
            self.follow_all(before)

    def follow_all(self, all):
        self.here.follows_all = all
        if self.calls:
            self.calls.phantom_calls_follow_all(all)

    def rule_of(self, func):
        rule = self.rules.get(func)
        if rule is None:
            rule = self.rules[func] = Rule(func)
            if self.calls:
                self.calls.phantom_calls_are(rule.c_name, func._schema.overload_name.encode(), rule.kind)
        return rule

    @classmethod
    def ignore_compile_internals(cls):
        return True  # torch.compile compiles as ever

    def tell(self, what, how):
        place = line_of(frames_from(sys._getframe(1)))
        if not place:  # on a thread of autograd's, which has no Python above it
            place = line_of(frames_from(sys._current_frames().get(threading.main_thread().ident)))
        key = (place, what, how)
        self.told[key] = self.told.get(key, 0) + 1

    def is_known(self, tensor):
        return not tensor.is_cuda or tensor.numel() == 0 or self.stubs.phantom_knows(storage(tensor))

    def settle(self, tensor, known, by_fill=False):
        if tensor.is_cuda and tensor.numel() > 0:
            self.settle_storage(storage(tensor), known, by_fill)

    def settle_storage(self, address, known, by_fill=False):
        if known:
            self.stubs.phantom_know(address, by_fill)
        else:
            self.stubs.phantom_forget(address)

    def follows(self, tensor):
        return self.here.follows_all or tensor.numel() <= (LIMIT_OF_FLOATS if tensor.is_floating_point() else LIMIT)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if FakeTensor in types:  # which have no values
            return func(*args, **kwargs)
        if any(each.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ for each in types):
            return NotImplemented  # tensors of tensors, as DTensor: what they call in turn comes here again
        rule = self.rule_of(func)
        if rule.name.startswith(collectives.FUNCTIONAL) and not rule.is_collective:
            return func(*args, **kwargs)  # the same numbers, in another tensor
        if rule.is_view:
            if rule.name in LIFTS:
                self.settle(args[0], self.follows(args[0]))
            return func(*args, **kwargs)
        self.stubs.phantom_operator_begins(rule.c_name)
        try:
            if rule.is_collective:
                return self.exchanged(func, rule, args, kwargs)
            if rule.kind == PLAIN and self.has_unknown(args):
                return self.plain(func, rule, args, kwargs)
            return self.called(func, rule, args, kwargs)
        finally:
            self.stubs.phantom_operator_ends()

    def plain(self, func, rule, args, kwargs):
        result = func(*args, **kwargs)
        for each in tensors_in(result):
            self.settle(each, False)
        for i, _ in rule.writes:  # lists of tensors that are changed in place are no results
            for each in tensors_in(args[i] if i < len(args) else None):
                self.settle(each, False)
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
        inputs = [*tensors_in(args), *tensors_in(list(kwargs.values()))]
        if rule.name in SIZED and any(each.is_cuda for each in inputs) and kwargs.get("output_size") is None:
            return self.sized(func, rule.name, args, kwargs, inputs)
        written = [args[i] if i < len(args) else kwargs.get(name) for i, name in rule.writes]
        overwritten = {id(each) for (_, name), each in zip(rule.writes, written) if name in rule.overwrites}
        computes = rule.repeats and all(
            self.follows(each) and (rule.name in SHAPED or id(each) in overwritten or self.is_known(each))
            for each in inputs)
        assumed = None if computes else self.assumed(rule.name.rstrip("_"), args, kwargs)
        if self.masks_of(rule, args):
            result = self.counted(func, rule, args, kwargs)
        elif computes and self.here.follows_all:  # copies of any size are made, too
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
        if rule.name == "aten::nonzero" and known and not computes:  # of a mask that is taken to be true
            on_cpu(result).copy_(torch.ones(args[0].shape, dtype=torch.bool).nonzero())
        elif known and computes:
            known = self.compute(func, rule.name, args, kwargs, results, changed)
        elif known and assumed is not None:
            for each in results:  # those that are changed in place among them
                on_cpu(each).fill_(assumed)
        else:
            known = False
        for each in (*results, *changed):
            is_still_known = known and any(each is other for other in changed) and self.is_known(each)
            # What a fill has made and was changed since is that fill's still.
            if not is_still_known or rule.name in FILLS:
                self.settle(each, known, by_fill=rule.name in FILLS)
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

    def assumed(self, name, args, kwargs):
        """The result that one operand decides, or that follows where numbers are finite; None: it is not known.

        x == x, x != x, and |x| beside infinity; what is true or anything, what is false, or zero times anything.
        Numbers that are looked for among others, as an answer's tokens among those that end it, are taken to be absent.
        """
        if name == "aten::isin":
            elements, among = (f"{each.numel():,}" if isinstance(each, torch.Tensor) else "one" for each in args[:2])
            self.tell(f"whether {elements} numbers are among {among} others: none", ASSUMED)
            return bool(kwargs.get("invert") or (len(args) > 3 and args[3]))
        if name in ("aten::isnan", "aten::isinf"):
            return False
        if name in ("aten::eq", "aten::ne"):
            is_same, infinite = args[0] is args[1], isinstance(args[1], float) and math.isinf(args[1])
            return (name == "aten::eq") == is_same if is_same or infinite else None
        decides = DECIDING.get(name)
        for each in args[:2] if decides is not None else ():
            whole = isinstance(each, torch.Tensor) and not each.is_floating_point() and each.numel() > 0
            if whole and self.follows(each) and self.is_known(each) and on_cpu(each).eq(decides).all():
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
        if tensor.dtype == torch.bool and is_within(sys._getframe(1), *GOES_ON):
            self.tell("whether to go on: yes", ASSUMED)
            return True
        self.tell("a number", READ)
        self.here.made_up = True
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
            if each.numel() and self.follows(each):
                each.fill_(1 if each.is_floating_point() else 0)
            if each.numel():
                self.tell(f"{each.numel():,} numbers", READ)
                self.has_brought = True

    def put(self, tensor, device):
        there = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
        if there.numel():
            on_cpu(there).copy_(tensor)
        self.settle(there, True)
        return there

    def masks_of(self, rule, args):
        """Of which an operator asks the GPU how many are true."""
        if rule.indexes and len(args) > 1 and isinstance(args[1], (list, tuple)):
            return [each for each in args[1] if is_mask(each) and each.is_cuda]
        if rule.name not in COUNTED or not args[0].is_cuda:
            return []
        return [args[0] if rule.name == "aten::nonzero" else torch.broadcast_tensors(*args[:2])[1]]

    def counted(self, func, rule, args, kwargs):
        """LibTorch's own operator, which finds these numbers where a GPU would have put them."""
        masks = self.masks_of(rule, args)
        follows = [self.follows(each) and self.is_known(each) for each in masks]
        self.here.counts = [int(on_cpu(each).count_nonzero()) if is_followed else each.numel()
                            for each, is_followed in zip(masks, follows)]
        try:
            return func(*args, **kwargs)
        finally:
            asked = len(masks) - len(self.here.counts)
            self.here.counts = []
            for mask, is_followed in [*zip(masks, follows)][:asked]:
                if not is_followed:
                    self.tell(f"how many of {mask.numel():,} are true: all", ASSUMED)

    def answer(self, to, size):
        """Whether a count has been put where the operator that is called will read it: whole numbers, one or a sum."""
        if not self.here.counts:
            return False
        left, numbers = self.here.counts.pop(0), (ctypes.c_int * (size // 4)).from_address(to)
        for i in range(len(numbers)):
            numbers[i] = min(left, 0x7FFFFFFF)
            left -= numbers[i]
        return True

    def sized(self, func, name, args, kwargs, inputs):
        """Operators whose results' sizes depend on values."""
        device = next(each.device for each in inputs if each.is_cuda)
        if all(self.follows(each) and self.is_known(each) for each in inputs):
            result = func(*moved(args), **moved(kwargs))
            there = tuple(self.put(each, device) for each in tensors_in(result))
            return there[0] if isinstance(result, torch.Tensor) else there
        raise RuntimeError(f"fathom phantom: the size of what {name} makes depends on numbers that only a GPU knows "
                           f"({line_of(frames_from(sys._getframe(1)))})")
