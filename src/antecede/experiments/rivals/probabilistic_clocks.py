"""Probabilistic clocks (Mostéfaoui & Weiss 2017): how many deliveries violate causal order. The audit counts them.

64 nodes broadcast to each other. Propagation is normal, mean 100 u.t., and nothing queues, as in the paper. The load is
the mean number of messages under way at a time, X: a message is published every 100/X u.t. by a node drawn at random.

`calculated` is the paper's estimate: the share of messages that arrive too early, times the probability that X other
messages have incremented all K entries of the one that is missing, (1 − (1 − 1/R)^(KX))^K. The share that arrives too
early is measured with a vector clock on the same run: it is the share that such a clock holds.
"""

from collections.abc import Mapping

from antecede.audit import audit
from antecede.experiments.base import Experiment, Metrics, Value
from antecede.search.harness import AppTracer
from antecede.sim import RunSpec, simulate
from antecede.trace import Recorder

NODES, MESSAGES = 64, 250
HOP = 100.0
KEYS = (1, 2, 4)
#: Settings of the first experiment, with messages under way at a time.
LOADS = {"light": 3, "medium": 10, "heavy": 30}
#: Entries of the vector in the second experiment.
ENTRIES = 32

_EXACT = "vector clock"


def violated_share(entries: int, keys: int, under_way: float) -> float:
    """The paper's probability that a message is delivered although one before it is missing."""
    return float((1 - (1 - 1 / entries) ** (keys * under_way)) ** keys)


class Clocks(Experiment):
    """Violations against the number of entries."""

    name = "probabilistic-clocks"
    paper = "rivals"
    item = "probabilistic-clocks"
    title = "Deliveries that violate causal order, by entries of the vector (its size), keys and load"
    about = (
        "The paper's own runs have 1000 processes, R = 100 and K = 4. Here 64 nodes broadcast to each other; sizes are "
        "numbers of entries R, settings are loads: 3, 10 and 30 messages under way at a time. Violations are "
        "deliveries that the audit finds out of causal order, in percent; a vector clock, with an entry for each "
        "node, has none. `early_percent` is the share that it holds: what no order at all would violate at least. "
        "`calculated` is the paper's estimate. Means of ten seeds, medium load: a vector clock holds 3.4 ± 0.4 % of "
        "the messages; with one key 3.0 ± 0.4, 1.3 ± 0.3 and 0.3 ± 0.2 % of the deliveries violate order with 4, 16 "
        "and 64 entries (calculated: 3.2, 1.6, 0.5), with four keys 3.6 ± 0.5, 2.2 ± 0.4 and 0.08 ± 0.07 % (3.4, 2.5, "
        "0.16). So several keys pay only where entries are many for the load; with few, one wrong delivery leads to "
        "others, and more are violated than came too early. An entry for each process drawn at random (R = 64, K = 1) "
        "is not a vector clock: some are drawn twice."
    )
    settings = tuple(LOADS)
    sizes: tuple[int, ...] = (4, 8, 16, 32, 64)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        return _runs(nodes, LOADS[setting], seed)

    def execute(self, spec: RunSpec) -> Metrics:
        """Run, and have the audit count. A vector clock violates nothing: what it held is what came too early."""
        recorder = Recorder()
        metrics = simulate(spec, watch=[AppTracer(recorder)]).metrics
        report = audit(recorder.rows(), rules=("causal",))
        return {
            "violated": report.rule("causal").violations / report.deliveries,
            "early": metrics["waited_share"],
            "interval": float(spec.workload.rpartition("interval=")[2]),
        }

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return _values(nodes, nodes, metrics)


class Load(Clocks):
    """Violations against the load."""

    name = "probabilistic-clocks-load"
    item = "probabilistic-clocks-load"
    title = "Deliveries that violate causal order, by messages under way at a time, with 32 entries"
    about = (
        "Sizes are messages under way at a time, X; 64 nodes; means of ten seeds. With one key 0.27 ± 0.18 % of the "
        "deliveries violate causal order at X = 5, 2.5 ± 0.7 % at 20 and 6.5 ± 0.9 % at 40. The paper's estimate is "
        "0.27, 2.9 and 7.5. Two keys are better at X = 5 (0.07 ± 0.07 %) and worse at 40 (7.4 ± 0.7 %), as the "
        "paper's rule for the best K, R ln 2 / X, says: 4.4 and 0.6. At X = 40 some 10.4 ± 1.0 % of the messages "
        "arrive too early; with four keys 9.7 ± 0.8 % violate order, so the clock holds hardly any of them."
    )
    settings = (f"{ENTRIES} entries",)
    sizes = (1, 2, 5, 10, 20, 40)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        return _runs(ENTRIES, nodes, seed)

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return _values(nodes, ENTRIES, metrics)


def _runs(entries: int, under_way: int, seed: int) -> dict[str, RunSpec]:
    variants: dict[str, dict[str, object]] = {_EXACT: {"entries": 0}}
    variants |= {f"K = {keys}": {"entries": entries, "keys": keys} for keys in KEYS}
    return {
        name: RunSpec(
            protocol="probabilistic-clocks",
            nodes=NODES,
            seed=seed,
            network=f"normal:mean={HOP:g},t_pc=0,t_t=0",
            workload=f"rate:messages={MESSAGES},interval={HOP / under_way:.4g}",
            options=options,
        )
        for name, options in variants.items()
    }


def _values(x: int, entries: int, metrics: Mapping[str, Metrics]) -> list[Value]:
    exact = metrics[_EXACT]
    under_way = HOP / exact["interval"]
    values = [Value(_EXACT, x, "early_percent", 100 * exact["early"])]
    for keys in KEYS:
        name = f"K = {keys}"
        expected = exact["early"] * violated_share(entries, keys, under_way)
        values += [
            Value(name, x, "violations_percent", 100 * metrics[name]["violated"]),
            Value(f"{name}, calculated", x, "violations_percent", 100 * expected),
        ]
    return [*values, Value(_EXACT, x, "violations_percent", 100 * exact["violated"])]


CLOCKS: tuple[Experiment, ...] = (Clocks(), Load())
