"""Kim & Ahn, Figures 7 to 10: how many gossip steps a message takes to the subscribers, by simulation and calculation.

A message is published; before the first round one node in a hundred stops, and one packet in twenty is lost (τ = 0.01,
ε = 0.05, section 3). The authors' protocols have brokers that gossip among each other and send to subscribers that do
not. In their rivals, lpbcast [4] and probabilistic atomic broadcast [6], every subscriber is a member and gossips. In
each round a node that has the message sends it to `fanout` others. A *step* is a round. A subscriber is reached when
the message has arrived, whether or not it can be delivered yet.
"""

import random
from collections.abc import Callable, Mapping
from math import ceil
from typing import Final

from antecede.core import Message, Packet
from antecede.experiments.base import Axis, Experiment, Metrics, Value
from antecede.experiments.kim_ahn.epidemic_model import Distribution, all_reached, mean_reached, rounds_to_all, spread
from antecede.sim import RunSpec, simulate
from antecede.sim.engine import SilentObserver
from antecede.sim.units import TICKS

LOSS, CRASH = 0.05, 0.01
#: Not printed; the paper has few brokers and many subscribers.
BROKERS: Final = 16
#: Far longer than a packet takes, so that steps do not overlap.
ROUND = 1000.0
#: A node that has the message sends it on until the end, as in the model.
ROUNDS = 32
#: The figures' horizontal axis.
STEPS = range(1, 13)

#: By name in the figures: the protocol and its options. Notices are sent once, and lost ones are pulled when the broker
#: next says how far it is (every third round); or they are sent in four rounds, and none is pulled.
_BROKERED: dict[str, tuple[str, dict[str, object]]] = {
    "gossip-context": ("gossip-context", {}),
    "gossip-rounds": ("gossip-rounds", {}),
    "gossip-context, repeated": ("gossip-context", {"notices": 4, "pull": False}),
    "gossip-rounds, repeated": ("gossip-rounds", {"notices": 4, "pull": False}),
}
_RIVALS = ("lpbcast", "pabcast")

_ABOUT = (
    "The curves have no numbers, and neither the number of brokers nor fan-out and size of views are printed: 16 "
    "brokers here. The paper's brokers draw subscribers anew in each round; ours have each their own, and send a "
    "message to them when they have it. So a message spreads among 16, where in lpbcast and probabilistic atomic "
    "broadcast it spreads among all subscribers. That the authors' protocols converge faster reproduces: with 125 "
    "subscribers and fan-out 3, gossip-context has reached 22, 61, 91 and 94 % after 1 to 4 steps, lpbcast 3, 10, 30 "
    "and 65, atomic broadcast 3, 11, 34 and 76 (means of 10 seeds; runs differ by 3 to 11 of the 125 subscribers). "
    "That all are reached sooner reproduces if brokers repeat their notices in four rounds: 4.2 ± 0.4 steps against "
    "7.9 ± 2.0 and 5.9 ± 0.6; after 5 steps all have the message in 9 runs of 10, in none of lpbcast's and in 2 of "
    "atomic broadcast's. With one notice it does not: a lost notice is found out when the broker says how far it is, "
    "and the last subscriber is reached after 8.3 ± 1.1 steps. Where a broker stops, its subscribers are not reached; "
    "such runs have no value in Figure 7. Steps grow with the logarithm of the number of subscribers in the rivals, as "
    "calculated (model), and hardly in the authors' protocols, whose brokers stay 16."
)


class _Arrivals(SilentObserver):
    """An observer: when each node first had the message, and which nodes stopped."""

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
    """One message, and the subscribers that have it after each step. The figures read different values off it.

    Sizes are numbers of subscribers.
    """

    paper = "kim-ahn"
    about = _ABOUT
    settings = ("fanout-2", "fanout-3", "fanout-4")

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        fanout = int(setting.removeprefix("fanout-"))
        found = {name: _gossip(name, nodes, seed, fanout, brokers=0) for name in _RIVALS}
        return found | {
            name: _gossip(protocol, nodes, seed, fanout, brokers=BROKERS, **more)
            for name, (protocol, more) in _BROKERED.items()
        }

    def execute(self, spec: RunSpec) -> Metrics:
        """How many subscribers had the message after each step; None if its publisher stopped before the first."""
        seen = _Arrivals()
        simulate(spec, measure=False, watch=[seen])
        if seen.publisher in seen.down:
            return {"reached": None, "fanout": spec.options["fanout"]}
        first = int(str(spec.options.get("brokers", 0)))
        up = {node for node in range(first, spec.nodes) if node not in seen.down}
        # The first round comes one round after the message: what arrives between the first and the second is step 1.
        steps = [ceil(time / (ROUND * TICKS)) - 1 for node, time in seen.at.items() if node in up]
        return {
            "reached": [sum([step <= limit for step in steps]) for limit in range(ROUNDS)],
            "up": len(up),
            "fanout": spec.options["fanout"],
        }


def _gossip(protocol: str, subscribers: int, seed: int, fanout: int, *, brokers: int, **more: object) -> RunSpec:
    """One message: of a broker to the subscribers of all brokers, or of a member to all members."""
    nodes = brokers + subscribers
    rng = random.Random(f"{seed}/who stops/{nodes}")
    down = rng.sample(range(nodes), max(1, round(CRASH * nodes)))
    workload = "one"
    options: dict[str, object] = {"round": ROUND, "young": ROUNDS, "fanout": fanout, **more}
    if brokers:
        workload = f"brokered:brokers={brokers},aside={brokers},overlap=1,several=1,messages=1,interval=0.001"
        options["brokers"] = brokers
    return RunSpec(
        protocol=protocol,
        nodes=nodes,
        seed=seed,
        network="constant:delay=1",
        workload=workload,
        faults=(f"loss:share={LOSS}", *(f"crash:node={node},at={ROUND / 2:g}" for node in sorted(down))),
        options=options,
    )


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
    """A value after each step, from the model's distribution and from the subscribers reached and up in a run."""
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
    axis = Axis(r"-(\d+)$", "gossip steps")
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
