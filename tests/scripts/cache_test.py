"""The model of the caching allocator that says where reserved bytes lie."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True

from compare import cache  # noqa: E402

MIB = cache.MIB


def sum_of(profile):
    holes = sum(size * count for size, count in profile.holes.items())
    return profile.allocated - profile.fallen + profile.small + profile.tail + holes


class Trace:
    def __init__(self):
        self.lines, self.count = [], 0

    def alloc(self, size, mapped=0):
        if mapped:
            self.lines.append(f"segment_map {mapped} 0 0")
        self.lines.append(f"alloc {self.count} {size} 0")
        self.count += 1
        return self.count - 1

    def free(self, block):
        self.lines += [f"free_requested {block} 0 0", f"free_completed {block} 0 0"]


class CacheTest(unittest.TestCase):
    def test_a_hole_is_filled_before_the_end(self):
        trace = Trace()
        trace.alloc(9 * MIB, mapped=20 * MIB)
        temporary = trace.alloc(24 * MIB, mapped=20 * MIB)
        trace.alloc(5 * MIB)
        trace.free(temporary)
        trace.alloc(9 * MIB)  # into the hole of 24
        trace.alloc(9 * MIB)
        trace.alloc(24 * MIB, mapped=40 * MIB)  # 6 are left of it
        profile = cache.play(trace.lines)
        self.assertEqual(profile.holes, {6 * MIB: 1})
        self.assertEqual(profile.tail, 80 * MIB - (9 + 24 + 5 + 24) * MIB)
        self.assertEqual(profile.fallen, 0)
        self.assertEqual(sum_of(profile), profile.reserved)

    def test_small_blocks_lie_apart_and_neighbours_grow_together(self):
        trace = Trace()
        blocks = [trace.alloc(1000, mapped=2 * MIB), trace.alloc(MIB)]
        for block in blocks:
            trace.free(block)
        trace.alloc(2 * MIB, mapped=20 * MIB)
        profile = cache.play(trace.lines)
        self.assertEqual((profile.small, profile.holes), (2 * MIB, {}))
        self.assertEqual(profile.fallen, 0)
        self.assertEqual(sum_of(profile), profile.reserved)

    def test_what_fell_before_the_peak_is_said(self):
        trace = Trace()
        first, second = trace.alloc(20 * MIB, mapped=20 * MIB), trace.alloc(20 * MIB, mapped=20 * MIB)
        trace.alloc(20 * MIB, mapped=20 * MIB)
        trace.free(first)
        trace.alloc(30 * MIB, mapped=40 * MIB)
        trace.free(second)
        profile = cache.play(trace.lines)
        self.assertEqual(profile.holes, {20 * MIB: 1})
        self.assertEqual(profile.tail, 10 * MIB)
        self.assertEqual(sum_of(profile), profile.reserved)

    def test_a_trace_of_another_allocator_is_refused(self):
        trace = Trace()
        trace.alloc(20 * MIB, mapped=22 * MIB)
        with self.assertRaisesRegex(cache.CacheError, "played again"):
            cache.play(trace.lines)
        with self.assertRaisesRegex(cache.CacheError, "segment_alloc"):
            cache.play(["segment_alloc 2097152 0 0"])


if __name__ == "__main__":
    unittest.main()
