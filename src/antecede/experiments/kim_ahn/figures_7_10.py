"""Kim & Ahn, Figures 7 to 10: how many gossip steps a message takes, by simulation and by calculation.

A message is published; before the first round one node in a hundred stops, and one packet in twenty is lost (τ = 0.01,
ε = 0.05, section 3). In each round every node that has the message sends it to `fanout` others. A *step* is a round; a
node is reached when the message has arrived, whether or not it can be delivered yet. All protocols gossip on the same
links, without a first multicast and without pulls, so that only their way of gossiping differs.
"""

import random
from collections.abc import Callable, Mapping
from math import ceil

from antecede.core import Message, Packet
from antecede.experiments.base import Experiment, Metrics, Value
from antecede.experiments.kim_ahn.epidemic_model import Distribution, all_reached, mean_reached, rounds_to_all, spread
from antecede.sim import RunSpec, simulate
from antecede.sim.engine import SilentObserver
from antecede.sim.units import TICKS

LOSS, CRASH = 0.05, 0.01
#: Far longer than a packet takes, so that steps do not overlap.
ROUND = 1000.0
#: A node that has the message sends it on until the end, as in the model.
ROUNDS = 32
#: The figures' horizontal axis.
STEPS = range(1, 13)

_PROTOCOLS: dict[str, dict[str, object]] = {
    "gossip-context": {"pull": False},
    "gossip-rounds": {"pull": False},
    "pbcast": {"multicast": False},
    "lpbcast": {},
}

_ABOUT = (
    "Every node is a broker here; the paper's brokers send to subscribers that do not gossip. Its second rival, "
    "probabilistic atomic broadcast, is not built; pbcast runs instead. Fan-out and size of views are not printed, and "
    "the curves have no numbers, so only shapes can be compared: steps grow with the logarithm of the number of "
    "subscribers, and the probability that all have the message goes to 1. That the authors' protocols need fewer "
    "steps than pbcast and lpbcast does not follow from their smaller headers, and is not seen among brokers: all four "
    "tell along the same random graph, and spread as calculated."
)


class _Arrivals(SilentObserver):
    """An observer: when each node first had the message."""

    def __init__(self) -> None:
        self.at: dict[int, int] = {}
        self.publisher = -1
        self.down: set[int] = set()

    def published(self, now: int, node: int, message: Message) -> None:
        self.publisher = node
        self.at[node] = 0

    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None:
        if packet.messages:
            self.at.setdefault(node, now)

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        if what == "crash":
            self.down.add(node)


class _Spreading(Experiment):
    """One message, and the nodes that have it after each step. The figures read different values off it."""

    paper = "kim-ahn"
    about = _ABOUT
    settings = ("fanout-2", "fanout-3", "fanout-4")

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        fanout = int(setting.removeprefix("fanout-"))
        rng = random.Random(f"{seed}/who stops/{nodes}")
        down = rng.sample(range(nodes), max(1, round(CRASH * nodes)))
        faults = (f"loss:share={LOSS}", *(f"crash:node={node},at={ROUND / 2:g}" for node in sorted(down)))
        return {
            protocol: RunSpec(
                protocol=protocol,
                nodes=nodes,
                seed=seed,
                network="constant:delay=1",
                workload="one",
                faults=faults,
                options={"round": ROUND, "young": ROUNDS, "fanout": fanout, **more},
            )
            for protocol, more in _PROTOCOLS.items()
        }

    def execute(self, spec: RunSpec) -> Metrics:
        """How many nodes had the message after each step; None if its publisher stopped before the first round."""
        seen = _Arrivals()
        simulate(spec, measure=False, watch=[seen])
        if seen.publisher in seen.down:
            return {"reached": None, "fanout": spec.options["fanout"]}
        steps = [ceil(time / (ROUND * TICKS)) - 1 for node, time in seen.at.items() if node not in seen.down]
        up = spec.nodes - len(seen.down)
        # The first round comes one round after the message: what arrives between the first and the second is step 1.
        return {
            "reached": [sum([step <= limit for step in steps]) for limit in range(ROUNDS)],
            "up": up,
            "fanout": spec.options["fanout"],
        }


class StepsToAll(_Spreading):
    """Figure 7."""

    name = "kim-ahn-figure-7"
    item = "figure-7"
    title = "Gossip steps until every subscriber has a message"
    sizes = (16, 64, 125, 256)
    full_sizes = (512, 1000)

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        found = []
        for protocol, its in metrics.items():
            if its["reached"] is not None and its["reached"][-1] == its["up"]:
                found.append(Value(protocol, nodes, "steps", its["reached"].index(its["up"])))
        fanout = next(iter(metrics.values()))["fanout"]
        found.append(Value("model", nodes, "steps", rounds_to_all(nodes, fanout, loss=LOSS, crash=CRASH)))
        return found


def _step_by_step(
    name: str,
    nodes: int,
    metrics: Mapping[str, Metrics],
    calculated: Callable[[Distribution], float],
    simulated: Callable[[int, int], float],
) -> list[Value]:
    """A value after each step, from the model's distribution and from the nodes reached and up in a run."""
    fanout = next(iter(metrics.values()))["fanout"]
    model = spread(nodes, fanout, len(STEPS), loss=LOSS, crash=CRASH)
    found = [Value("model", nodes, f"{name}-{step}", calculated(model[step])) for step in STEPS]
    for protocol, its in metrics.items():
        if its["reached"] is not None:
            found += [
                Value(protocol, nodes, f"{name}-{step}", simulated(its["reached"][step], its["up"])) for step in STEPS
            ]
    return found


class Reached(_Spreading):
    """Figure 8."""

    name = "kim-ahn-figure-8"
    item = "figure-8"
    title = "Subscribers reached after so many gossip steps"
    sizes = (125,)
    full_sizes = (500,)

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return _step_by_step("after", nodes, metrics, mean_reached, lambda reached, up: reached)


class AllReached(Reached):
    """Figures 9 and 10."""

    name = "kim-ahn-figures-9-10"
    item = "figures-9-10"
    title = "Probability that every subscriber has a message after so many gossip steps"

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return _step_by_step("all-after", nodes, metrics, all_reached, lambda reached, up: float(reached == up))


SPREADING: tuple[Experiment, ...] = (StepsToAll(), Reached(), AllReached())
