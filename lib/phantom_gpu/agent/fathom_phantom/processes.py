"""How a process of a script ends, and for whose end it waits: each way is told of."""
import atexit
import functools
import multiprocessing.process
import multiprocessing.util
import os
import signal
import subprocess
import threading


def tell_when_terminated(agent):
    """Who has started several processes ends one that is not needed any more, and all when one has failed: they tell
    what they took until then."""

    def end(number, frame):
        if agent.used:
            agent.report()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end)


def tell_at_end_of_child(agent):
    """Of multiprocessing, as it begins: it has forgotten what would end it, and may end without what atexit has."""
    multiprocessing.util.Finalize(None, agent.report, exitpriority=0)
    tell_when_terminated(agent)


def tell_before_end(agent):
    """Of a process that ends without what atexit has, or that goes on as another program."""
    leave = os._exit

    @functools.wraps(leave)
    def leaving(status):
        try:
            agent.report()
        finally:
            leave(status)

    os._exit = leaving
    for name in ("execv", "execve"):
        become = getattr(os, name)

        @functools.wraps(become)
        def becoming(path, *others, become=become):
            if isinstance(path, int) or os.access(path, os.X_OK):  # one of several places where the program is looked for
                agent.report()
                agent.reported_by = None
            return become(path, *others)

        setattr(os, name, becoming)


def tell_waits(stubs):
    """For the end of another process, by turns of calls that would have come back without it."""
    wait, join = subprocess.Popen.wait, multiprocessing.process.BaseProcess.join

    @functools.wraps(wait)
    def waiting(process, timeout=None):
        status = wait(process, timeout=timeout)
        if timeout is None:  # else it might have gone on
            stubs.follow_waited(process.pid)
        return status

    @functools.wraps(join)
    def joining(process, timeout=None):
        stubs.follow_by_chance(timeout is not None)
        try:
            join(process, timeout)
        finally:
            stubs.follow_by_chance(False)
        if timeout is None and process.exitcode is not None:
            stubs.follow_waited(process.pid)

    subprocess.Popen.wait, multiprocessing.process.BaseProcess.join = waiting, joining


def follow(agent):
    os.register_at_fork(after_in_child=agent.forked)
    atexit.register(agent.report)
    # One that is spawned reads the script before it knows its parent, and has its name by then.
    if multiprocessing.parent_process() is not None or multiprocessing.current_process().name != "MainProcess":
        tell_at_end_of_child(agent)
    multiprocessing.util.register_after_fork(agent, tell_at_end_of_child)
    tell_when_terminated(agent)
    tell_before_end(agent)
    tell_waits(agent.stubs)
