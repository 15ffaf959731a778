"""fathom's hand in a script's Python: notes what it takes of a phantom GPU, and writes it down as the process ends.

FATHOM_PHANTOM_REPORT: the folder into which each process that imports torch writes a JSON file, named by its number and
when it began: another program may follow in the same process.
FATHOM_PHANTOM_TIMELINE: 1: each block of the step with the peak is told.
FATHOM_PHANTOM_NO_WEIGHTS: 1: models of transformers need no files of weights.
FATHOM_PHANTOM_STEPS: the script is ended after so many steps of its optimizer; 0: it ends by itself.
"""
import ctypes
import functools
import gc
import json
import os
import signal
import sys
import threading
import time
import weakref

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from fathom_phantom import collectives, holes, peak, processes, unknown, values, written
from fathom_phantom.places import frames_from, line_of

MOST_EVENTS = 4_000_000  # of the allocator that are kept; a step of a large model has some 10,000
# Seconds. NCCL's watchdog looks ten times a second for collectives that have ended, whose buffers are kept until then.
# On a GPU that is within a step; here a step would be over before.
WATCHDOG = 0.25
BEGAN = time.time_ns()
READERS = ("aten::_local_scalar_dense", "aten::copy_", "aten::_to_copy", "aten::equal")  # which values.py follows


def now():
    return time.time_ns() // 1000


def has_group():
    """Of the script's processes."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def stubs():
    """Under this process; stubs/phantom.h declares what is called of them."""
    library = ctypes.CDLL(None)
    library.phantom_know.argtypes = (ctypes.c_void_p, ctypes.c_bool)
    library.phantom_forget.argtypes = library.phantom_knows.argtypes = (ctypes.c_void_p,)
    library.phantom_knows.restype = ctypes.c_bool
    library.phantom_operator.restype = ctypes.c_char_p
    return library


def calls(folder):
    """The fast way round values.py (lib/phantom_gpu/calls), which there is for one version of torch; or None."""
    library = os.path.join(folder, f"calls-{version()}.so")
    if not os.path.exists(library):
        return None
    library = ctypes.CDLL(library)
    library.phantom_calls_begin.argtypes = (ctypes.c_int64, ctypes.c_int64)
    library.phantom_calls_here.argtypes = library.phantom_calls_follow_all.argtypes = (ctypes.c_bool,)
    return library


class Agent:
    def __init__(self, settings):
        self.last_step = int(settings.get("FATHOM_PHANTOM_STEPS") or 0)
        self.tells_timeline = settings.get("FATHOM_PHANTOM_TIMELINE") == "1"
        self.folder = settings["FATHOM_PHANTOM_REPORT"]
        self.stubs = stubs()
        self.values = values.Values(self.stubs, calls(settings["FATHOM_PHANTOM_FOLDER"]))
        self.written = written.Written(self.values)
        self.rank = int(os.environ.get("RANK") or 0)
        self.stepped = weakref.WeakSet()  # optimizers, in the step that ended last
        self.step_ends = []  # when steps ended
        self.marks = []   # (time_us, the phase that begins)
        self.peaks = {}   # by device, of the allocator, also before the script has reset them
        self.owners = {}  # address -> (time_us, component)
        self.unseen = {}  # operator -> how often it read what nobody follows
        self.refusal = None  # of memory, since the last step
        self.survived = {}   # device -> refusals after which steps went on
        self.used = False
        self.reported_by = None  # the number of the process

    # ---- what is heard

    def begin(self):
        """CUDA is there."""
        self.used = True
        self.note_rank()
        self.tell_begin()
        torch.cuda.memory._record_memory_history(enabled="all", context="alloc", stacks="python",
                                                 max_entries=MOST_EVENTS)
        torch._C._cuda_attach_out_of_memory_observer(self.refused)
        self.mark("forward")

    def tell_begin(self):
        write(self.folder, {"finished": False, "used_gpu": self.used, "rank": self.rank})

    def joined(self):
        """The script's group of processes."""
        self.note_rank()
        self.tell_begin()

    def note_rank(self):
        """However the group was made."""
        if has_group():
            self.rank = torch.distributed.get_rank()

    def forked(self):
        """In the child, which cannot use the GPU that its parent uses."""
        self.used = False

    def mark(self, phase):
        if not self.marks or self.marks[-1][1] != phase:
            self.marks.append((now(), phase))

    def step(self):
        return len(self.step_ends)

    def refused(self, device, wanted, total, free):
        main = sys._current_frames().get(threading.main_thread().ident)
        self.refusal = {"bytes": wanted, "step": self.step() + 1, "phase": self.marks[-1][1], "device": device,
                        "place": line_of(frames_from(main)), "allocated": torch.cuda.memory_allocated(device)}

    def before_step(self, optimizer, args, kwargs):
        self.mark("optimizer_step")
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.own(parameter, "weights")
                self.own(parameter.grad, "gradients")

    def after_step(self, optimizer, args, kwargs):
        # Where several optimizers step in turn, a step is that of all, until one of them steps again.
        if optimizer in self.stepped or not self.stepped:
            self.stepped.clear()
            self.step_ends.append(now())
        self.stepped.add(optimizer)
        self.step_ends[-1] = now()
        for state in optimizer.state.values():
            for value in state.values() if isinstance(state, dict) else ():
                self.own(value, "optimizer_states")
        self.mark("forward")
        if has_group() and torch.distributed.get_world_size() > 1:
            time.sleep(WATCHDOG)
        if self.refusal is not None:
            device = self.refusal["device"]
            self.survived[device] = self.survived.get(device, 0) + 1
            self.refusal = None
        if self.last_step and self.step() >= self.last_step:
            self.stubs.phantom_leave_ranks()  # the others go on to their own last step
            raise SystemExit(0)

    def own(self, tensor, component):
        if not isinstance(tensor, torch.Tensor) or not tensor.is_cuda:
            return
        if hasattr(tensor, "__tensor_flatten__"):  # quantized ones and such, whose bytes are in tensors within
            for name in tensor.__tensor_flatten__()[0]:
                self.own(getattr(tensor, name), component)
        elif type(tensor) in (torch.Tensor, torch.nn.Parameter):
            self.owners[values.storage(tensor)] = (now(), component)

    def fold_peaks(self):
        if not torch.cuda.is_initialized():
            return
        for device in range(torch.cuda.device_count()):
            statistics, peaks = torch.cuda.memory_stats(device), self.peaks.setdefault(device, {})
            for kind in ("requested", "allocated", "reserved"):
                peaks[kind] = max(peaks.get(kind, 0), statistics.get(f"{kind}_bytes.all.peak", 0))

    def heard_read(self, to, _, size):
        """Whether what is read has been put there."""
        if self.values.answer(to, size):
            return True
        operator = (self.stubs.phantom_operator() or b"").decode()
        if operator and operator not in READERS:
            self.unseen[operator] = self.unseen.get(operator, 0) + 1
        return False

    # ---- what is told

    def own_modules(self):
        """Frozen weights and buffers, which no optimizer has."""
        for each in gc.get_objects():
            if issubclass(type(each), torch.nn.Module):
                for tensor in (*each._parameters.values(), *each._buffers.values()):
                    self.own(tensor, "weights")

    def report(self):
        """Once for each process, which may end in several ways."""
        if self.reported_by == os.getpid():
            return
        self.reported_by = os.getpid()
        is_main = threading.current_thread() is threading.main_thread()
        terminated = signal.signal(signal.SIGTERM, signal.SIG_IGN) if is_main else None
        try:
            self.tell_all()
        finally:
            if is_main:
                signal.signal(signal.SIGTERM, terminated or signal.SIG_DFL)

    def tell_all(self):
        self.values.end()
        if not self.used:
            return write(self.folder, {"finished": True})
        self.note_rank()
        self.fold_peaks()
        self.own_modules()
        reads = [{"place": place, "what": what, "how": how, "times": times}
                 for (place, what, how), times in self.values.told.items()]
        reads += [{"place": operator, "what": "numbers", "how": "within", "times": times}
                  for operator, times in self.unseen.items()]
        traces = torch.cuda.memory._snapshot()["device_traces"]
        refused = self.refusal["device"] if self.refusal is not None else None
        devices = [each for each, peaks in self.peaks.items() if peaks["reserved"] or each == refused] or [0]
        for device in devices:
            trace = peak.Trace(traces[device], self.marks, self.step_ends)
            timeline = trace.timeline(self.owners) if self.tells_timeline and trace.at >= 0 else None
            write(self.folder,
                  {"finished": True, "used_gpu": True, "rank": self.rank, "process": os.getpid(), "began": BEGAN,
                   "device": self.stubs.phantom_place(device), "steps": self.step(),
                   **self.peaks[device], "allocated_at_end": torch.cuda.memory_allocated(device),
                   "reserved_at_end": torch.cuda.memory_reserved(device), "peak": trace.told(self.owners),
                   "refusal": self.refusal if device == refused else None,
                   "survived": self.survived.get(device, 0),
                   # Both are the process's.
                   "reads": reads if device == devices[0] else [],
                   "written": self.written.list() if device == devices[0] else [],
                   "timeline": timeline},
                  of_device="" if device == devices[0] else f"-{device}")


def version():
    """Of torch: "2.11"."""
    return ".".join(torch.__version__.split(".")[:2])


# For each CUDA that there are stubs for, the versions of torch that were tried with them.
FOLLOWED = {"12": ("2.4", "2.5", "2.6", "2.7", "2.8"), "13": ("2.11",)}


def objection(devices):
    """Why this torch cannot be followed; empty where it can."""
    cuda = (torch.version.cuda or "").split(".")[0]
    if version() not in FOLLOWED.get(cuda, ()):
        tried = " and ".join(f"{', '.join(versions)} for CUDA {each}" for each, versions in FOLLOWED.items())
        return f"the script's torch is {torch.__version__}, and a phantom GPU was tried with {tried} alone"
    if not hasattr(ctypes.CDLL(None), "phantom_on_read"):
        return f"this build of fathom has no stub libraries for CUDA {cuda}, which the script's torch is made for"
    ranks, here = (int(os.environ.get(name) or 1) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if here > devices:
        pretended = "1 GPU is" if devices == 1 else f"{devices} GPUs are"
        return f"the script runs in {here} processes, and {pretended} pretended: give --gpus {here}"
    if "LOCAL_WORLD_SIZE" in os.environ and ranks != here:
        return (f"the script runs in {ranks} processes on several machines, and phantom GPUs are those of one: "
                f"have it run all on this one, with --gpus {ranks}")
    return ""


def write(folder, answer, of_device=""):
    """Of this process: in the place of what it told before."""
    path = os.path.join(folder, f"{os.getpid()}-{BEGAN}{of_device}.json")
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump({"torch": torch.__version__, **answer}, file)
    os.replace(path + ".part", path)


def called_after(modules, name, then):
    """A function of the modules calls another one as it ends."""
    original = getattr(modules[0], name)

    @functools.wraps(original)
    def calling(*args, **kwargs):
        result = original(*args, **kwargs)
        then()
        return result

    for module in modules:
        setattr(module, name, calling)


def follow_threads(values):
    start = threading.Thread.start

    @functools.wraps(start)
    def started(thread):
        own = vars(thread).get("run")
        run = thread.run

        def followed():
            if own is None:  # a thread that holds itself would hold its tensors, too
                del thread.run
            else:
                thread.run = own
            with values.following():
                run()

        thread.run = followed
        start(thread)

    threading.Thread.start = started


def attach(settings):
    """settings: the variables FATHOM_PHANTOM_… of the environment, as Python began."""
    folder = settings["FATHOM_PHANTOM_REPORT"]
    if why := objection(int(settings.get("FATHOM_PHANTOM_DEVICES") or 1)):
        write(folder, {"objection": why})
        os._exit(3)
    write(folder, {"finished": False})  # until it has
    agent = Agent(settings)
    torch.backends.cuda.enable_cudnn_sdp(False)  # whose workspaces nobody knows without a GPU
    torch.cuda._lazy_call(agent.begin)
    register_optimizer_step_pre_hook(agent.before_step)
    register_optimizer_step_post_hook(agent.after_step)
    backward = torch.autograd.backward

    def marked_backward(*args, **kwargs):
        agent.mark("backward")
        try:
            return backward(*args, **kwargs)
        finally:
            agent.mark("forward")

    torch.autograd.backward = marked_backward
    for module in (torch.cuda, torch.cuda.memory):
        reset = module.reset_peak_memory_stats

        def folding(*args, reset=reset, **kwargs):
            agent.fold_peaks()
            return reset(*args, **kwargs)

        module.reset_peak_memory_stats = folding
    unknown.follow_items(agent.values)
    agent.written.begin()
    # Lives as long as the process.
    agent.reader = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(agent.heard_read)
    agent.stubs.phantom_on_read(agent.reader)
    collectives.follow_objects(agent.values)
    if settings.get("FATHOM_PHANTOM_NO_WEIGHTS") == "1":
        holes.attach(folder)
    agent.values.begin()
    follow_threads(agent.values)
    if torch.distributed.is_available():
        modules = [torch.distributed, torch.distributed.distributed_c10d]
        mesh = sys.modules.get("torch.distributed.device_mesh")
        if hasattr(mesh, "init_process_group"):
            modules.append(mesh)
        called_after(modules, "init_process_group", agent.joined)
    processes.follow(agent)
