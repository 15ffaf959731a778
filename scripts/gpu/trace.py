"""Traces of the caching allocator, as `fathom train --trace` writes them, held against each other event by event."""

import dataclasses
import hashlib
import itertools


@dataclasses.dataclass
class Trace:
    blocks: list  # lines of blocks: action, block, bytes, stream
    all: list  # these and the lines of segments, without addresses


def read(file):
    blocks, everything = [], []
    with open(file) as lines:
        for line in lines:
            line = line.rstrip("\n")
            if line.startswith("segment_"):
                everything.append(line.rpartition(" ")[0])
            else:
                blocks.append(line)
                everything.append(line)
    return Trace(blocks, everything)


def digest(lines):
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def first_difference(predicted, measured):
    """The first event that differs, in words; empty if none does."""
    for number, (before, after) in enumerate(itertools.zip_longest(predicted, measured)):
        if before != after:
            return f"event {number}: predicted '{before or 'the end'}', measured '{after or 'the end'}'"
    return ""
