"""Gossip with predecessor lists: which nodes deliver every message, and in how many rounds, under loss and crashes.

Kim & Ahn 3 has the setting (loss 5 %, crashes 1 %) and no figures for it. A hundredth of the nodes, brokers among them,
stops during the run, and all others suspect them two rounds later; a subscriber whose broker stopped moves to another.
"""

import random
from collections.abc import Mapping
from math import ceil, log2
from statistics import fmean

from antecede.core import Message
from antecede.experiments.base import Experiment, Metrics, Value
from antecede.experiments.kim_ahn.epidemic_model import rounds_to_all
from antecede.protocols.gossip import groups_of
from antecede.sim import RunSpec, simulate
from antecede.sim.engine import SilentObserver
from antecede.sim.units import ticks

LOSS, CRASH = 0.05, 0.01
BROKERS, FANOUT = 32, 3
ROUND = 200.0
MESSAGES, INTERVAL = 20, 200.0


class Spreading(SilentObserver):
    """An observer: for each message, the delay until each node delivered it."""

    def __init__(self) -> None:
        self.published_at: dict[tuple[str, int, int], int] = {}
        self.delays: dict[tuple[str, int, int], dict[int, int]] = {}
        self.takes: dict[int, set[str]] = {}
        self.crashed: set[int] = set()

    def published(self, now: int, node: int, message: Message) -> None:
        key = (message.topic, message.source, message.seq)
        self.published_at[key] = now
        self.delays[key] = {node: 0}

    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
        key = (message.topic, message.source, message.seq)
        self.delays[key].setdefault(node, now - self.published_at[key])

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        if what == "subscribe":
            self.takes.setdefault(node, set()).add(topic)
        elif what == "crash":
            self.crashed.add(node)

    def metrics(self, round_ticks: int, brokers: int) -> dict[str, float]:
        """Shares in percent, of messages and nodes without a crash; times in rounds."""
        complete, owed, got = 0, 0, 0
        to_brokers: list[int] = []
        to_all: list[int] = []
        messages = [key for key in self.delays if key[1] not in self.crashed]
        for key in messages:
            groups = groups_of(key[0])
            readers = [node for node, taken in self.takes.items() if not groups.isdisjoint(taken)]
            correct = [node for node in readers if node not in self.crashed]
            delays = self.delays[key]
            had = [delays[node] for node in correct if node in delays]
            owed += len(correct)
            got += len(had)
            to_brokers.append(max(delays.get(node, 0) for node in correct if node < brokers))
            if len(had) == len(correct):
                complete += 1
                to_all.append(max(had))
        return {
            "reached_all": 100 * complete / max(1, len(messages)),
            "delivered": 100 * got / max(1, owed),
            "rounds_brokers": fmean([ceil(delay / round_ticks) for delay in to_brokers]),
            "rounds_all": fmean([ceil(delay / round_ticks) for delay in to_all]) if to_all else 0.0,
        }


#: Name, protocol, and whether nodes pull what they miss.
_VARIANTS = (
    ("pull", "gossip-context", True),
    ("no-pull", "gossip-context", False),
    ("rounds-pull", "gossip-rounds", True),
    ("rounds-no-pull", "gossip-rounds", False),
)


class Reliability(Experiment):
    """Which nodes deliver every message."""

    name = "gossip-reliability"
    paper = "kim-ahn"
    item = "reliability"
    title = "Messages that every correct subscriber delivered, and in how many rounds"
    about = (
        "Ours; the paper prints no such figures. 32 brokers, fan-out 3, loss 5 %, 1 % of the nodes crash; sizes are "
        "numbers of subscribers. With pull every correct subscriber delivers every message, by predecessors and by "
        "rounds. Without, a subscriber has each message from one packet: some 95 % arrive, hardly a message reaches "
        "all, and messages whose predecessors are lost wait until these are given up. Rounds to all brokers are about "
        "those of the analytical model and the logarithm of their number; those to all subscribers grow by a round "
        "trip or two for what was lost."
    )
    settings = ("brokers",)
    sizes = (125, 500, 1000)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        rng = random.Random(f"{seed}/crashes")
        every = nodes + BROKERS
        down = rng.sample(range(every), max(1, round(CRASH * every)))
        crashes = tuple(
            f"crash:node={node},at={rng.uniform(0, MESSAGES * INTERVAL):.0f},noticed={2 * ROUND:.0f}" for node in down
        )
        return {
            name: RunSpec(
                protocol=protocol,
                nodes=every,
                seed=seed,
                workload=f"brokered:brokers={BROKERS},count=1,messages={MESSAGES},interval={INTERVAL:.0f}",
                faults=(f"loss:share={LOSS}", *crashes),
                options={"brokers": BROKERS, "fanout": FANOUT, "round": ROUND, "pull": pull},
            )
            for name, protocol, pull in _VARIANTS
        }

    def execute(self, spec: RunSpec) -> Metrics:
        spreading = Spreading()
        simulate(spec, measure=False, watch=[spreading])
        return spreading.metrics(ticks(ROUND), BROKERS)

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        found = [
            Value(name, nodes, metric, float(value)) for name, run in metrics.items() for metric, value in run.items()
        ]
        logarithms = {"rounds_brokers": log2(BROKERS), "rounds_all": log2(nodes)}
        found += [Value("log2", nodes, metric, value) for metric, value in logarithms.items()]
        return [*found, Value("model", nodes, "rounds_brokers", rounds_to_all(BROKERS, FANOUT, loss=LOSS, crash=CRASH))]


RELIABILITY: tuple[Experiment, ...] = (Reliability(),)
