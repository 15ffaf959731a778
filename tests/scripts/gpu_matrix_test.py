#!/usr/bin/env python3
"""The GPU check's verdicts: what is as predicted passes, and each way of being otherwise is told."""

import copy
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"))

from compare import gpu_cases, gpu_matrix, gpu_trace  # noqa: E402

TRACE = ["segment_alloc 2097152 0 4096", "alloc 0 1024 0", "free_requested 0 1024 0", "free_completed 0 1024 0"]
MEMORY = {
    "peak": {"measured": 1024},
    "allocated": {"measured": 1024},
    "reserved": {"measured": 2097152},
    "components": {"weights": {"measured": 1000}, "kernels": {"measured": 24}},
    "phases": {"forward": {"peak": {"measured": 1024}}},
}


class Verdicts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def trace(self, name, lines):
        file = pathlib.Path(self.folder.name) / name
        file.write_text("".join(line + "\n" for line in lines))
        return file

    def wrong(self, memory=MEMORY, lines=TRACE):
        prediction = {
            **gpu_matrix.outcome(MEMORY),
            "ranges": {"allocated": [1024, 1536], "reserved": [2097152, 4194304]},
            "trace": self.trace("predicted", TRACE),
        }
        return gpu_matrix.hold(prediction, memory, self.trace("measured", lines))["wrong"]

    def changed(self, *path, to):
        memory = copy.deepcopy(MEMORY)
        entry = memory
        for key in path[:-1]:
            entry = entry[key]
        entry[path[-1]] = to
        return memory

    def test_what_is_equal_passes(self):
        self.assertEqual(self.wrong(), [])

    def test_addresses_and_segments_may_differ(self):
        self.assertEqual(self.wrong(lines=["segment_alloc 20971520 0 8192", *TRACE[1:]]), [])

    def test_the_first_event_that_differs_is_told(self):
        (text,) = self.wrong(lines=[*TRACE[:2], "free_requested 0 1024 1", TRACE[3]])
        self.assertEqual(text, "event 1: predicted 'free_requested 0 1024 0', measured 'free_requested 0 1024 1'")

    def test_a_missing_event_is_told(self):
        self.assertIn("measured 'the end'", self.wrong(lines=TRACE[:3])[0])
        self.assertIn("predicted 'the end'", self.wrong(lines=[*TRACE, "alloc 1 8 0"])[0])

    def test_a_byte_off_is_told(self):
        self.assertIn("requested +1 bytes", self.wrong(self.changed("peak", "measured", to=1025)))
        weights = self.wrong(self.changed("components", "weights", "measured", to=1001))
        self.assertIn("weights: 1,000 predicted, 1001 measured", weights)
        self.assertTrue(self.wrong(self.changed("phases", "forward", "peak", "measured", to=1)))

    def test_ranges_hold_their_ends_and_no_more(self):
        self.assertEqual(self.wrong(self.changed("reserved", "measured", to=4194304)), [])
        self.assertTrue(self.wrong(self.changed("reserved", "measured", to=4194305)))
        self.assertTrue(self.wrong(self.changed("allocated", "measured", to=1023)))

    def test_a_replay_compares_segments_too(self):
        one = gpu_trace.read(self.trace("one", TRACE))
        other = gpu_trace.read(self.trace("other", ["segment_alloc 20971520 0 4096", *TRACE[1:]]))
        self.assertEqual(gpu_trace.first_difference(one.blocks, other.blocks), "")
        self.assertIn("event 0", gpu_trace.first_difference(one.all, other.all))


class Cases(unittest.TestCase):
    def test_twenty_cover_what_they_must(self):
        cases = gpu_cases.cases()
        self.assertEqual(len(cases), 20)
        self.assertEqual(len({case.name for case in cases}), 20)
        keys = {key for case in cases for key, _ in case.settings}
        wanted = {"attn_implementation", "gradient_accumulation_steps", "eval_strategy", "save_strategy"}
        self.assertLessEqual(wanted, keys)
        self.assertEqual({case.row.method for case in cases}, {"full", "lora"})
        self.assertEqual({case.row.precision for case in cases}, {"fp32", "autocast", "bf16"})
        for special in ("resume", "near_full", "allocator"):
            self.assertTrue(any(getattr(case, special) for case in cases), special)
        self.assertTrue(any(case.data == "ragged" for case in cases))


if __name__ == "__main__":
    unittest.main()
