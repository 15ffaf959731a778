"""When a process computes and when its machine sends, drawn over two steps of its run, by what the kernel counts.

usage: timeline.py PROGRAM INTERFACE OUTPUT_DIR     in the network namespace of INTERFACE, until the run's processes end

Every 5 ms: the time on a core of the main thread of the namespace's process that runs PROGRAM (/proc/.../schedstat; operators
run there with num_threads: 1, Gloo's copies on threads of its own), the bytes that INTERFACE has sent, and whether
OUTPUT_DIR/metrics.jsonl has become longer, which ends a step (logging_steps: 1).
"""

import os
import pathlib
import sys
import time

EVERY = 0.005
COLUMNS = 100  # so that so many of them are so many percent
STEPS = 2


def find_process(program):
    """The process whose executable is `program` and whose network this one shares; the youngest, as others start it."""
    own = os.readlink("/proc/self/ns/net")
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "exe") == program and os.readlink(folder / "ns" / "net") == own:
                found.append(int(folder.name))
        except OSError:  # it is gone, or the kernel's
            pass
    return max(found, default=None)


def watch(program, interface, metrics):
    """(seconds, seconds on a core, bytes sent, bytes of metrics) at each look, from the end of the first step on."""
    while not metrics.exists() or metrics.stat().st_size == 0:
        time.sleep(EVERY)
    process = find_process(program)
    schedstat = pathlib.Path(f"/proc/{process}/task/{process}/schedstat")
    sent = pathlib.Path("/sys/class/net") / interface / "statistics" / "tx_bytes"
    looks = []
    try:
        while True:
            on_core = int(schedstat.read_text(encoding="ascii").split()[0]) / 1e9
            looks.append((time.monotonic(), on_core, int(sent.read_text(encoding="ascii")), metrics.stat().st_size))
            time.sleep(EVERY)
    except OSError:  # it has ended
        return looks


def draw(looks):
    ends = [index for index in range(1, len(looks)) if looks[index][3] > looks[index - 1][3]]
    if len(ends) <= STEPS + 1:
        sys.exit(f"timeline: only {len(ends)} steps were seen to end")
    first, last = ends[-2 - STEPS], ends[-2]  # the last but one: after the last the run ends
    begin, end = looks[first][0], looks[last][0]
    width = (end - begin) / COLUMNS
    columns = [[0.0, 0] for _ in range(COLUMNS)]
    for before, after in zip(looks[first:last], looks[first + 1 : last + 1]):
        column = columns[min(COLUMNS - 1, int((after[0] - begin) / width))]
        column[0] += after[1] - before[1]
        column[1] += after[2] - before[2]
    most = max(sent for _, sent in columns)
    computes = [on_core >= width / 2 for on_core, _ in columns]
    sends = [sent >= most / 2 for _, sent in columns]
    marks = ["."] * COLUMNS
    for index in ends:
        if first < index < last:
            marks[int((looks[index][0] - begin) / width)] = "|"
    print(f"{STEPS} steps, {end - begin:.2f} s; a column is {width * 1e3:.0f} ms, # at least half of it (of the link: half of its rate)")
    for name, line in (("computes", computes), ("sends", sends)):
        print(f"  {name:9}" + "".join("#" if busy else "." for busy in line))
    print("  a step   " + "".join(marks))
    both = sum(c and s for c, s in zip(computes, sends))
    alone = sum(computes) - both, sum(sends) - both
    print(f"  both {both} %, computes alone {alone[0]} %, sends alone {alone[1]} %, neither {COLUMNS - both - sum(alone)} %")


if __name__ == "__main__":
    draw(watch(sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]) / "metrics.jsonl"))
