"""What lay in the memory of a GPU when most was requested, by the trace of LibTorch's caching allocator."""
import bisect

from fathom_phantom.places import line_of

MOST_BLOCKS = 12
LEAST_PART = 1000  # of the whole, what a line must hold to be told


class Trace:
    """events: of one device, as torch.cuda.memory._snapshot() has them. marks: (time_us, the phase that begins).
    step_ends: when steps of the optimizers ended.
    """

    def __init__(self, events, marks, step_ends):
        self.events = events
        begins = [when for when, _ in marks]
        self.step_ends = step_ends
        self.phases = [marks[max(0, bisect.bisect_right(begins, event["time_us"]) - 1)][1] for event in events]
        self.allocated = {}  # address -> the numbers of the events that took it
        self.freed = {}      # number of such an event -> that of its release
        self.peak, self.at = 0, -1
        live, now = {}, 0
        for number, event in enumerate(events):
            if event["action"] == "alloc":
                live[event["addr"]] = number
                self.allocated.setdefault(event["addr"], []).append(number)
                now += event["size"]
                if now > self.peak:
                    self.peak, self.at = now, number
            elif event["action"] == "free_completed" and event["addr"] in live:
                block = live.pop(event["addr"])
                self.freed[block] = number
                now -= events[block]["size"]

    def owned(self, owners):
        """The components of blocks that somebody owned: owners has for an address when it did, and of what kind."""
        components = {}
        for address, (when, component) in owners.items():
            blocks = [number for number in self.allocated.get(address, ()) if self.events[number]["time_us"] <= when]
            if blocks:
                components[blocks[-1]] = component
        return components

    def next_backward(self):
        """For each event the number of the one with which the next backward pass begins."""
        begin, numbers = len(self.events), [0] * len(self.events)
        for number in range(len(self.events) - 1, -1, -1):
            if self.phases[number] == "backward" and (number == 0 or self.phases[number - 1] != "backward"):
                begin = number
            numbers[number] = begin
        return numbers

    def component(self, number, owned, backward):
        """Of the block that an event took. backward: what next_backward found."""
        # What a forward pass leaves to the backward pass, or would have.
        kept = self.phases[number] == "forward" and self.end(number) >= backward[number]
        return owned.get(number) or ("activations" if kept else "temporary_buffers")

    def end(self, number):
        """Of the block that an event took, the number of the event that gave it back."""
        return self.freed.get(number, len(self.events))

    def place(self, number):
        frames = ((frame["filename"], frame["line"]) for frame in self.events[number].get("frames") or ())
        return line_of(frames) or f"within the {self.phases[number]} pass"

    def told(self, owners):
        """As report/script_answer.h reads it."""
        if self.at < 0:
            return {"requested": 0, "phase": "", "step": 0, "components": {}, "blocks": []}
        owned, backward = self.owned(owners), self.next_backward()
        groups, components = {}, {}
        for number in (each for numbers in self.allocated.values() for each in numbers):
            if number > self.at or self.end(number) <= self.at:
                continue
            size, component = self.events[number]["size"], self.component(number, owned, backward)
            components[component] = components.get(component, 0) + size
            group = groups.setdefault((self.place(number), component), [0, 0])
            group[0] += size
            group[1] += 1
        largest = sorted((each for each in groups.items() if each[1][0] * LEAST_PART >= self.peak),
                         key=lambda item: -item[1][0])[:MOST_BLOCKS]
        return {"requested": self.peak, "phase": self.phases[self.at], "components": components,
                "step": bisect.bisect_right(self.step_ends, self.events[self.at]["time_us"]) + 1,
                "blocks": [{"place": place, "component": component, "bytes": size, "count": count}
                           for (place, component), (size, count) in largest]}

    def stretch(self):
        """The step with the peak: the first of its events, and the first after it."""
        times = [event["time_us"] for event in self.events]
        after = bisect.bisect_right(self.step_ends, times[self.at])
        begin, end = (bisect.bisect_left(times, when) for when in (0, *self.step_ends, times[-1] + 1)[after:after + 2])
        return begin, end

    def timeline(self, owners):
        """The step with the peak, block by block, as report/script_answer.h reads it."""
        owned, backward = self.owned(owners), self.next_backward()
        begin, end = self.stretch()
        position, positions = 0, []  # after each event of the stretch; only those count that take and give back
        releases = set(self.freed.values())
        for number in range(begin, end):
            position += self.events[number]["action"] == "alloc" or number in releases
            positions.append(position)
        names, blocks = {"": 0}, []
        for number in sorted(each for numbers in self.allocated.values() for each in numbers):
            if number >= end or self.end(number) < begin:
                continue
            taken = positions[number - begin] if number >= begin else 0
            given_back = positions[self.end(number) - begin] if self.end(number) < end else -1
            blocks.append([self.events[number]["size"], taken, given_back, self.component(number, owned, backward),
                           names.setdefault(self.place(number), len(names))])
        spans = []
        for number in range(begin, end):
            if not spans or spans[-1][0] != self.phases[number]:
                spans.append([self.phases[number], spans[-1][2] if spans else 0, 0])
            spans[-1][2] = positions[number - begin]
        return {"names": list(names), "events": position, "peak": self.peak,
                "peak_position": positions[self.at - begin],
                "phases": [each for each in spans if each[1] < each[2]], "blocks": blocks}
