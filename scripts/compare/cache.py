"""Where the caching allocator's reserved bytes lie at their peak: a trace of `fathom train --trace` played again.

The model is LibTorch 2.11's with expandable segments: for each stream one segment of small blocks (up to 1 MiB) and one
of large ones, which grow by 2 and by 20 MiB at their end; a request takes the smallest free block that holds it, the
last one only where no other does. It is held against the segments of the trace, so a figure of it is LibTorch's own.
"""

import bisect
import dataclasses

MIB = 1 << 20
ROUNDING = 512
LARGEST_SMALL_BLOCK = MIB
GROWTH = {True: 2 * MIB, False: 20 * MIB}  # of segments of small blocks, of large ones


class CacheError(Exception):
    pass


@dataclasses.dataclass(eq=False)
class Block:
    address: int
    size: int
    free: bool
    before: "Block | None" = None
    after: "Block | None" = None


class Segment:
    """One segment that grows: its blocks in the order of addresses, and its free ones in the order of size."""

    def __init__(self, small):
        self.small, self.size, self.last, self.free = small, 0, None, []

    def blocks(self):
        block = self.last
        while block:
            yield block
            block = block.before

    def _keep(self, block):
        bisect.insort(self.free, (block.size, block.address, block), key=lambda entry: entry[:2])

    def _take(self, block):
        self.free.pop(bisect.bisect_left(self.free, (block.size, block.address), key=lambda entry: entry[:2]))

    def _grow(self, size):
        tail = self.last if self.last and self.last.free else None
        unit = GROWTH[self.small]
        more = -(-(size - (tail.size if tail else 0)) // unit) * unit
        if tail:
            self._take(tail)
            tail.size += more
        else:
            tail = Block(self.size, more, True, before=self.last)
            if self.last:
                self.last.after = tail
            self.last = tail
        self.size += more
        return tail

    def allocate(self, size):
        place = bisect.bisect_left(self.free, (size, -1), key=lambda entry: entry[:2])
        if place < len(self.free) and self.free[place][2] is self.last and place + 1 < len(self.free):
            place += 1  # what can still grow counts as the largest
        if place < len(self.free):
            block = self.free.pop(place)[2]
        else:
            block = self._grow(size)
        if block.size > size:
            rest = Block(block.address + size, block.size - size, True, block, block.after)
            if block.after:
                block.after.before = rest
            else:
                self.last = rest
            block.after, block.size = rest, size
            self._keep(rest)
        block.free = False
        return block

    def release(self, block):
        block.free = True
        for neighbour in (block.before, block.after):
            if neighbour and neighbour.free:
                self._take(neighbour)
                first, second = sorted((block, neighbour), key=lambda either: either.address)
                first.size += second.size
                first.after = second.after
                if second.after:
                    second.after.before = first
                else:
                    self.last = first
                block = first
        self._keep(block)


@dataclasses.dataclass
class Profile:
    """reserved = allocated + small + tail + holes - fallen."""

    reserved: int  # its peak
    allocated: int  # its peak, at whatever instant
    small: int  # free bytes among small blocks, at the peak of reserved bytes as all that follow
    tail: int  # at the end of the segments of large blocks
    holes: dict  # between large blocks: size to count
    fallen: int  # by so much less is allocated than at its own peak


def play(lines):
    """The profile of a trace's lines."""
    segments, live, mapped = {}, {}, 0
    reserved = allocated = peak_allocated = 0
    profile = None
    for line in lines:
        action, *fields = line.split()
        if action == "segment_map":
            mapped += int(fields[0])
        elif action == "alloc":
            block, size, stream = map(int, fields)
            size = max(ROUNDING, -(-size // ROUNDING) * ROUNDING)
            key = (size <= LARGEST_SMALL_BLOCK, stream)
            segment = segments.setdefault(key, Segment(key[0]))
            grown = segment.size
            live[block] = segment, segment.allocate(size)
            allocated += size
            peak_allocated = max(peak_allocated, allocated)
            if segment.size > grown:
                reserved += segment.size - grown
                profile = survey(segments.values(), reserved, allocated)
        elif action == "free_completed":
            segment, block = live.pop(int(fields[0]))
            allocated -= block.size
            segment.release(block)
        elif action != "free_requested":
            raise CacheError(f"'{action}' in the trace: only expandable segments that never shrink are played")
    if mapped != reserved:
        raise CacheError(f"the trace maps {mapped} bytes, played again it is {reserved}")
    profile.fallen = peak_allocated - profile.allocated
    profile.allocated = peak_allocated
    return profile


def survey(segments, reserved, allocated):
    profile = Profile(reserved, allocated, 0, 0, {}, 0)
    for segment in segments:
        for block in segment.blocks():
            if not block.free:
                continue
            if segment.small:
                profile.small += block.size
            elif block is segment.last:
                profile.tail += block.size
            else:
                profile.holes[block.size] = profile.holes.get(block.size, 0) + 1
    return profile
