"""What is known of the numbers that processes send each other by NCCL.

A rank vouches for what it gives; the stub of NCCL carries that, and says of what it has received whether all who gave
it vouched (nccl.c). Python objects are sent as tensors of bytes: they come from the host, and arrive whatever their
size.
"""
import ctypes
import functools
import threading

import torch

# c10d's operators by what they are given: the place among the arguments of what a rank sends, of those that it changes.
SENT = {"allreduce_": 0, "allreduce_coalesced_": 0, "broadcast_": 0, "reduce_": 0, "allgather_": 1,
        "_allgather_base_": 1, "allgather_coalesced_": 1, "allgather_into_tensor_coalesced_": 1, "reduce_scatter_": 1,
        "_reduce_scatter_base_": 1, "reduce_scatter_tensor_coalesced_": 1, "gather_": 1, "scatter_": 1,
        "alltoall_": 1, "alltoall_base_": 1, "send": 0, "recv_": None, "recv_any_source_": None, "barrier": 0}
# Those of torch.distributed._functional_collectives take what they send first, and give back what they receive; others
# of the name wait for it and wrap it.
FUNCTIONAL = "_c10d_functional::"
SENT_FIRST = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
OBJECTS = ("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "send_object_list",
           "recv_object_list")
SILENT, KNOWN, UNKNOWN = range(3)


def sent_by(name):
    """The place of what an operator sends, and whether it is one of these at all."""
    if name.startswith("c10d::"):
        return SENT.get(name[len("c10d::"):]), name[len("c10d::"):] in SENT
    return 0, name.startswith(tuple(FUNCTIONAL + each for each in SENT_FIRST))


class Collectives:
    def __init__(self, stubs, settle):
        self.vouch, self.grouped = stubs.phantom_vouch, stubs.phantom_grouped
        self.grouped.restype = ctypes.c_long
        self.settle = settle  # of a storage, whether it is known
        self.awaited = {}     # address -> its storage, while a group is open
        self.here = threading.local()  # received: whether all that has come since the call began is known
        self.callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(self.receive)
        stubs.phantom_on_receive(self.callback)

    def receive(self, address, size, known):
        self.here.received = bool(known) and getattr(self.here, "received", None) is not False
        if (storage := self.awaited.pop(address, None)) is not None:
            self.settle(storage, bool(known))

    def vouching(self, call, known):
        self.vouch(KNOWN if known else UNKNOWN)
        try:
            return call()
        finally:
            self.vouch(SILENT)

    def play(self, call, name, sent, changed_in):
        """The operator's result, and whether what it has changed is known. sent: whether that is known."""
        self.here.received = None
        result = self.vouching(call, sent)
        changed = changed_in(result)
        if self.grouped():
            self.awaited.update(changed)
            return result, changed, False
        # A rank that receives nothing, of a sum for another one, keeps what it has; other backends tell nothing.
        received = self.here.received
        known = received if received is not None else sent and name in ("c10d::reduce_", "c10d::send")
        return result, changed, known


def follow_objects(values):
    """Within these functions tensors of any size are followed."""
    distributed = torch.distributed
    if not distributed.is_available():
        return
    for name in OBJECTS:
        original = getattr(distributed, name, None)
        if original is None:
            continue

        @functools.wraps(original)
        def following(*args, original=original, **kwargs):
            with values.following_all():
                return original(*args, **kwargs)

        for module in (distributed, distributed.distributed_c10d):
            setattr(module, name, following)
