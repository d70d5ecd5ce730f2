"""Total notification order with three nodes, which manage the topics as well."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from antecede.core import Process
from antecede.protocols.options import Founders, MakeProcess
from antecede.protocols.tno import OrderingModule, TotalOrder
from antecede.protocols.tno.options import SERVICES, TnoOptions
from antecede.protocols.tno.straight_service import straight_service
from antecede.search.exhaustive.model import Bounds, Happening, Model, Step, join, leave, publish
from antecede.search.harness import NOTHING_LOST, ORDER

_NODES = 3


def unfinished(process: Process) -> list[str]:
    """The event service may hold messages that the ordering module no longer needs."""
    assert isinstance(process, TotalOrder)
    held = process.module.held
    return [*([f"holds {held} events for ever"] if held else []), *process.unfinished()]


def rules(processes: Mapping[int, Process], happened: Sequence[Happening]) -> tuple[str, ...]:
    return ("total", *NOTHING_LOST)


def make_with(options: TnoOptions, founders: Founders, *, straight: bool, **parts: Callable[..., Any]) -> MakeProcess:
    """`parts` replace those of the ordering module: make_manager, make_clock, make_publisher. `straight`: events go to
    every member at once, in no order; members must not change."""
    settings = options.settings(_NODES, founders)
    service = straight_service(founders) if straight else SERVICES["vcube-ps"](2000.0).build_groups(_NODES, founders)
    return lambda node: TotalOrder(OrderingModule(node, settings, **parts), service(node))


def model(
    summary: str,
    script: Mapping[int, Sequence[Step]],
    founders: Mapping[str, Sequence[int]],
    options: TnoOptions,
    *,
    straight: bool = True,
    mortal: tuple[int, ...] | None = None,
    parts: Mapping[str, Callable[..., Any]] = {},
    **bounds: int,
) -> Model:
    return Model(
        summary=f"TNO: {summary}",
        nodes=_NODES,
        make=make_with(options, founders, straight=straight, **parts),
        founders=founders,
        script=script,
        bounds=Bounds(**bounds),
        mortal=mortal,
        may_be_early=lambda timer: False,
        across_topics=options.across_topics,
        order=("total", *ORDER),
        rules=rules,
        unfinished=unfinished,
    )


#: Events wait without end.
_PATIENT = TnoOptions(ttl=0.0, retry=2000.0, tries=0)
#: An event that is early makes those before it late, and they are tagged. Node 0 manages all topics.
_HASTY = TnoOptions(buffer=0, retry=2000.0, tries=0)
_ONE_MANAGER = TnoOptions(buffer=0, retry=2000.0, tries=0, managers=1)
_SWAPS = TnoOptions(buffer=0, retry=2000.0, tries=0, managers=1, beta=0.02)
_LEASE = TnoOptions(ttl=20_000.0, retry=2000.0, tries=0, managers=1, lease=30_000.0)
_REPLICAS = TnoOptions(ttl=20_000.0, retry=2000.0, tries=0, replicas=3, lease=30_000.0)

_TWO = {"a": (0, 1, 2), "b": (0, 1, 2)}
_THREE = {0: publish("a"), 1: publish("b"), 2: publish("a")}

MODELS = {
    "tno": model("two topics, all nodes take both, three messages", _THREE, _TWO, _PATIENT),
    "tno-hasty": model("two topics, three messages, subscribers hold none", _THREE, _TWO, _HASTY),
    "tno-swap": model(
        "two topics change their order between four messages",
        {0: (*publish("a"), *publish("b", 3))},
        _TWO,
        _SWAPS,
    ),
    "tno-join": model(
        "over VCube-PS, two messages while a node joins another topic",
        {0: publish("a"), 1: join("b"), 2: publish("a")},
        {"a": (0, 1, 2), "b": (0,)},
        _ONE_MANAGER,
        straight=False,
    ),
    "tno-rejoin": model(
        "over VCube-PS, a message on each topic while a node leaves one and joins",
        {0: (*publish("a"), *publish("b")), 1: (*leave("a"), *join("a"))},
        {"a": (0, 1), "b": (0, 1)},
        _ONE_MANAGER,
        straight=False,
    ),
    "tno-crash": model(
        "over VCube-PS, two topics with one manager, two messages, a node that manages none crashes",
        {1: publish("b"), 2: publish("a")},
        _TWO,
        _LEASE,
        straight=False,
        mortal=(1, 2),
        crashes=1,
    ),
    "tno-replicas": model(
        "over VCube-PS, two topics with three managers each, two messages",
        {0: publish("a"), 1: publish("b")},
        _TWO,
        _REPLICAS,
        straight=False,
        crashes=1,
    ),
}
