"""What the agent in a script's Python makes of the allocator's trace (lib/phantom_gpu/agent)."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "lib/phantom_gpu/agent"))
sys.dont_write_bytecode = True

from fathom_phantom import peak  # noqa: E402


def event(time, action, address, size=100):
    return {"time_us": time, "action": action, "addr": address, "size": size, "frames": []}


def trace(optimizer_takes):
    """Of three steps of 10 us: forward, backward at 4, optimizer at 8, whose end is at 9; the second one takes most."""
    events, marks = [event(0, "alloc", 1)], [(0, "forward")]
    for step in range(3):
        begin = 10 * step
        size = 500 if step == 1 else 50
        marks += [(begin + 4, "backward"), (begin + 8, "optimizer_step"), (begin + 9, "forward")]
        events += [event(begin + 2, "alloc", 2, size), event(begin + 5, "alloc", 3, size)]
        if optimizer_takes:
            events += [event(begin + 8, "alloc", 4), event(begin + 8, "free_completed", 4)]
        events += [event(begin + 9, "free_completed", 2), event(begin + 9, "free_completed", 3)]
    return peak.Trace(events, marks, [9, 19, 29])


class TraceTest(unittest.TestCase):
    def test_draws_one_step_whether_its_optimizer_takes_memory_or_not(self):
        for optimizer_takes in (False, True):
            drawn = trace(optimizer_takes).timeline({})
            self.assertEqual(drawn["peak"], 1100 + 100 * optimizer_takes)
            self.assertEqual([name for name, _, _ in drawn["phases"]],
                             ["forward", "backward"] + ["optimizer_step"] * optimizer_takes)
            self.assertEqual([size for size, *_ in drawn["blocks"] if size == 500], [500, 500])
            self.assertEqual(len(drawn["blocks"]), 5 + optimizer_takes, "those of the step before that it gave back")

    def test_counts_steps(self):
        self.assertEqual(trace(False).told({})["step"], 2)
        self.assertEqual(peak.Trace([], [(0, "forward")], []).told({})["step"], 0)


if __name__ == "__main__":
    unittest.main()
