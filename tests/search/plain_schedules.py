"""Every schedule of a tiny system, one by one: no state is remembered, nothing is merged, each runs from the start.

Slow and obvious, to hold the explorer to. Applications act and packets arrive or are lost; nothing else happens.
"""

from collections.abc import Iterator

from antecede.core import Packet, Process
from antecede.search.exhaustive.model import Happening, Model, Seen


class _Run:
    """One schedule, as far as its choices go."""

    def __init__(self, model: Model, choices: list[int]) -> None:
        self.model = model
        self.processes: list[Process] = [model.make(node) for node in range(model.nodes)]
        self.flight: list[tuple[int, int, Packet]] = []
        self.steps = [0] * model.nodes
        self.losses = model.bounds.losses
        self.happenings: list[Happening] = []
        for process in self.processes:
            process.start()
            process.out.clear()
        for choice in choices:
            self._take(self.choices()[choice])

    def choices(self) -> list[tuple[str, int]]:
        acts = [("act", node) for node, taken in enumerate(self.steps) if taken < len(self.model.script.get(node, ()))]
        arrivals = [("arrive", place) for place in range(len(self.flight))]
        losses = [("lose", place) for place in range(len(self.flight))] if self.losses else []
        return [*acts, *arrivals, *losses]

    def _take(self, choice: tuple[str, int]) -> None:
        what, number = choice
        seen: list[Seen] = []
        if what == "act":
            node, taken = number, self.steps[number]
            self.steps[node] += 1
            step = self.model.script[node][taken]
            assert step.what == "publish"
            message = self.processes[node].publish(step.topic, b"%d.%d" % (node, taken))
            assert message is not None
            seen.append(Seen("publish", message.topic, message))
        else:
            node, sender, packet = self.flight.pop(number)
            if what == "lose":
                self.losses -= 1
                return
            self.processes[node].receive(sender, packet)
        out = self.processes[node].out
        assert not out.changes
        self.flight += [(to, node, packet) for to, packet in out.sends]
        seen += [Seen("deliver", message.topic, message) for message in out.deliveries]
        out.clear()
        if seen:
            self.happenings.append(Happening(node, tuple(seen)))

    @property
    def histories(self) -> tuple[tuple[Seen, ...], ...]:
        nodes = range(self.model.nodes)
        return tuple([tuple([one for at, seen in self.happenings if at == node for one in seen]) for node in nodes])


def schedules(model: Model) -> Iterator[_Run]:
    """Every schedule until nothing is left to do."""
    waiting: list[list[int]] = [[]]
    while waiting:
        choices = waiting.pop()
        run = _Run(model, choices)
        open_choices = run.choices()
        if not open_choices:
            yield run
        waiting += [[*choices, choice] for choice in range(len(open_choices))]
