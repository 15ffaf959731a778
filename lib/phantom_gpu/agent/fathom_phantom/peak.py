"""What lay in the memory of a GPU when most was requested, by the trace of LibTorch's caching allocator."""
import bisect

from fathom_phantom.places import line_of

MOST_BLOCKS = 12
LEAST_PART = 1000  # of the whole, what a line must hold to be told


class Trace:
    """events: of one device, as torch.cuda.memory._snapshot() has them. marks: (time_us, the phase that begins)."""

    def __init__(self, events, marks):
        self.events = events
        begins = [when for when, _ in marks]
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

    def told(self, owners, steps_before):
        """As report/script_answer.h reads it. steps_before: how many steps had begun at a time."""
        if self.at < 0:
            return {"requested": 0, "phase": "", "step": 0, "components": {}, "blocks": []}
        owned, backward = self.owned(owners), self.next_backward()
        groups, components = {}, {}
        for number in (each for numbers in self.allocated.values() for each in numbers):
            end = self.freed.get(number, len(self.events))
            if number > self.at or end <= self.at:
                continue
            event, phase = self.events[number], self.phases[number]
            # What a forward pass leaves to the backward pass, or would have.
            kept = phase == "forward" and end >= backward[number]
            component = owned.get(number) or ("activations" if kept else "temporary_buffers")
            components[component] = components.get(component, 0) + event["size"]
            frames = ((frame["filename"], frame["line"]) for frame in event.get("frames") or ())
            group = groups.setdefault((line_of(frames) or f"within the {phase} pass", component), [0, 0])
            group[0] += event["size"]
            group[1] += 1
        largest = sorted((each for each in groups.items() if each[1][0] * LEAST_PART >= self.peak),
                         key=lambda item: -item[1][0])[:MOST_BLOCKS]
        phase = self.phases[self.at]
        return {"requested": self.peak, "phase": phase, "components": components,
                "step": steps_before(self.events[self.at]["time_us"]) + (phase != "optimizer_step"),
                "blocks": [{"place": place, "component": component, "bytes": size, "count": count}
                           for (place, component), (size, count) in largest]}
