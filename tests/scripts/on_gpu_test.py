#!/usr/bin/env python3
"""scripts/on_gpu: what is as predicted passes, each way of being otherwise is told, and minutes that end lose nothing."""

import copy
import dataclasses
import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
SCRIPTS = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"
sys.path.insert(0, str(SCRIPTS))

from gpu import cases, check, features, page, profile, speed, trace  # noqa: E402
from gpu.session import OutOfTime, Results, Session, Unit, UnitFailed  # noqa: E402


def script(name):
    loader = importlib.machinery.SourceFileLoader(name, str(SCRIPTS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


on_gpu, gpu_claims = script("on_gpu"), script("gpu_claims")

TRACE = ["segment_alloc 2097152 0 4096", "alloc 0 1024 0", "free_requested 0 1024 0", "free_completed 0 1024 0"]
MEMORY = {
    "peak": {"measured": 1024},
    "allocated": {"measured": 1024},
    "reserved": {"measured": 2097152},
    "components": {"weights": {"measured": 1000}, "kernels": {"measured": 24}},
    "phases": {"forward": {"peak": {"measured": 1024}}},
    "device": {"dry_run": 4194304, "measured": 4194304},
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
        predicted = trace.read(self.trace("predicted", TRACE))
        prediction = {
            **check.outcome(MEMORY),
            "ranges": {"allocated": [1024, 1536], "reserved": [2097152, 4194304]},
            "trace_sha256": trace.digest(predicted.blocks),
        }
        measured = self.trace("measured", lines)

        def explain():
            return trace.first_difference(predicted.blocks, trace.read(measured).blocks)

        return check.hold(prediction, memory, measured, explain)["wrong"]

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
        one = trace.read(self.trace("one", TRACE))
        other = trace.read(self.trace("other", ["segment_alloc 20971520 0 4096", *TRACE[1:]]))
        self.assertEqual(trace.first_difference(one.blocks, other.blocks), "")
        self.assertIn("event 0", trace.first_difference(one.all, other.all))


FACTS = {"gpu": {"name": "H100", "total_bytes": 1 << 36, "compute_capability": "9.0", "multiprocessors": 132}}
FACTS |= {
    "phantom": False,
    "driver": "580",
    "date": "2026-11-22 16:14 UTC",
    "command": "scripts/on_gpu",
    "fathom": "fathom",
}
FACTS |= {"machine": {"cpu": "Xeon", "processors": 16}}


class Minutes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = pathlib.Path(self.folder.name)
        self.ran = []

    def session(self, sources="abc", seconds=1000.0):
        """A new one over the same folder, as when the script is called again."""
        results = Results(self.out)
        results.open_session(FACTS)
        ends_at = time.monotonic() + seconds
        return Session(None, None, self.out, "H100", 1, False, {}, "python3", sources, ends_at), results

    def unit(self, key, found=None, seconds=1, fails=None):
        def run():
            self.ran.append(key)
            if fails:
                raise fails
            return found or {"passed": True, "wrong": []}

        return Unit(f"random/{key}", key, seconds, run)

    def test_what_is_done_is_not_done_again_but_by_another_program(self):
        units = [self.unit("one"), self.unit("two")]
        self.assertEqual(on_gpu.work_through(units, *self.session()), 0)
        self.assertEqual(on_gpu.work_through(units, *self.session()), 0)
        self.assertEqual(self.ran, ["one", "two"])
        on_gpu.work_through(units, *self.session(sources="def"))
        self.assertEqual(self.ran, ["one", "two", "one", "two"])

    def test_what_takes_longer_than_is_left_waits_and_shorter_ones_do_not(self):
        units = [self.unit("long", seconds=5000), self.unit("short")]
        self.assertEqual(on_gpu.work_through(units, *self.session()), 1)
        self.assertEqual(self.ran, ["short"])

    def test_minutes_that_end_leave_no_record_and_errors_are_tried_again(self):
        ends, breaks = self.unit("ends", fails=OutOfTime()), self.unit("breaks", fails=UnitFailed("no memory"))
        session, results = self.session()
        self.assertEqual(on_gpu.work_through([ends, breaks], session, results), 1)
        self.assertEqual(list(results.units), ["random/breaks"])
        self.assertIn("no memory", results.units["random/breaks"]["error"])
        on_gpu.work_through([ends, breaks], session, results)
        self.assertEqual(self.ran, ["ends", "breaks", "ends"])
        on_gpu.work_through([breaks], *self.session())
        self.assertEqual(self.ran[-1], "breaks")

    def test_a_command_is_ended_with_the_minutes_or_its_limit(self):
        session, _ = self.session()
        with self.assertRaises(UnitFailed):
            dataclasses.replace(session, environment=None).call(["sleep", "60"], 0.1)
        session, _ = self.session(seconds=-1)
        with self.assertRaises(OutOfTime):
            dataclasses.replace(session, environment=None).call(["sleep", "60"], 60)

    def test_what_is_wrong_is_on_the_page(self):
        wrong = self.unit("wrong", {"passed": False, "wrong": ["reserved +1 bytes"]})
        session, results = self.session()
        on_gpu.work_through([wrong], session, results)
        text = (self.out / "results.md").read_text()
        self.assertIn("reserved +1 bytes", text)
        self.assertIn("0 of 1 as they must be", text)

    def test_results_of_another_gpu_are_not_mixed_in(self):
        _, results = self.session()
        results.write()
        with self.assertRaises(SystemExit):
            Results(self.out).open_session({**FACTS, "gpu": {**FACTS["gpu"], "name": "A100"}})


class Claims(unittest.TestCase):
    def test_what_a_run_showed_holds_for_the_same_trace_or_bytes_alone(self):
        then, now = {"traces": ["a"], "bytes": [1, 2, 3]}, {"traces": ["a"], "bytes": [1, 2, 3]}
        self.assertEqual(gpu_claims.still(then, now, "s"), "the same trace")
        self.assertEqual(gpu_claims.still(then, {**now, "traces": ["b"]}, "s"), "another trace")
        del then["traces"]
        self.assertEqual(gpu_claims.still(then, now, "s"), "the same bytes")
        other = gpu_claims.still(then, {**now, "bytes": [1, 2, 5]}, "s")
        self.assertEqual(other, "other bytes: reserved +2")
        self.assertEqual(gpu_claims.still({**then, "sources": "s"}, now, "s"), "the same program")
        self.assertEqual(gpu_claims.still(then, None, "s"), "the program has changed")


class Profile(unittest.TestCase):
    def test_busy_time_counts_what_overlaps_once_and_gaps_not(self):
        def event(cat, name, ts, dur):
            return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur}

        events = [
            event("kernel", "sm90_xmma_gemm_bf16", 0, 3000),
            event("kernel", "vectorized_elementwise_kernel", 1500, 3000),
            event("gpu_memcpy", "Memcpy DtoH", 6000, 1500),
            event("cuda_runtime", "cudaLaunchKernel", 0, 5),
            event("cuda_runtime", "cudaMemcpyAsync", 0, 5),
        ]
        found = profile.summary(events)
        self.assertAlmostEqual(found["span_ms"], 7.5 / 3)
        self.assertAlmostEqual(found["busy_ms"], 6.0 / 3)
        self.assertAlmostEqual(found["launches"], 1 / 3)
        kinds = {entry["name"]: entry["ms"] for entry in found["kinds"]}
        self.assertEqual(kinds, {"products": 1.0, "elementwise": 1.0, "copies and fills": 0.5})


class Units(unittest.TestCase):
    def test_keys_are_unlike(self):
        session = Session(None, None, None, "H100", 1, False, {}, "python3", "", 0)
        keys = [unit.key for piece in on_gpu.PIECES.values() for unit in piece.units(session)]
        self.assertEqual(len(keys), len(set(keys)))
        self.assertEqual({key.split("/")[0] for key in keys} - set(page.PIECES), set())

    def test_features_are_what_no_gpu_had_seen_too(self):
        settings = {setting for feature in features.features() for setting in feature.settings}
        for wanted in ("optim=sgd", "use_rslora=true", "attn_implementation=math"):
            self.assertIn(wanted, settings)
        self.assertTrue(any("modules_to_save" in setting for setting in settings))
        models = {feature.model for feature in features.features()}
        self.assertLessEqual({"window", "int4", "configs/models/qwen2.5-0.5b", "configs/models/qwen3-0.6b"}, models)

    def test_speed_has_every_row_of_the_small_model(self):
        rows = [c.row.name for c in speed.comparisons() if c.model == "125m"]
        self.assertEqual(len(set(rows)), 6)


class Cases(unittest.TestCase):
    def test_they_cover_what_they_must(self):
        all_cases = cases.CASES
        self.assertEqual(len({case.name for case in all_cases}), len(all_cases))
        keys = {key for case in all_cases for key, _ in case.settings}
        wanted = {"attn_implementation", "gradient_accumulation_steps", "eval_strategy", "save_strategy"}
        self.assertLessEqual(wanted, keys)
        self.assertEqual({case.row.method for case in all_cases}, {"full", "lora"})
        self.assertEqual({case.row.precision for case in all_cases}, {"fp32", "autocast", "bf16"})
        for special in ("resume", "near_full", "allocator"):
            self.assertTrue(any(getattr(case, special) for case in all_cases), special)
        self.assertTrue(any(case.data == "ragged" for case in all_cases))


if __name__ == "__main__":
    unittest.main()
