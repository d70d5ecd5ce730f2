"""What is explored: a small system, what its applications do, and how much may go wrong."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from antecede.core import Message, Packet, Process
from antecede.protocols.options import Founders, MakeProcess
from antecede.search.harness import NOTHING_LOST, ORDER, AppTracer
from antecede.trace import Recorder


class Step(NamedTuple):
    """Something that the application of a node does."""

    what: Literal["publish", "subscribe", "unsubscribe"]
    topic: str


def publish(topic: str, times: int = 1) -> tuple[Step, ...]:
    return (Step("publish", topic),) * times


def join(topic: str) -> tuple[Step, ...]:
    return (Step("subscribe", topic),)


def leave(topic: str) -> tuple[Step, ...]:
    return (Step("unsubscribe", topic),)


class Seen(NamedTuple):
    """What the application or the trace sees: a publication, a delivery, or a change of membership."""

    what: str
    topic: str
    message: Message | None = None
    out_of_order: bool = False


class Happening(NamedTuple):
    """What a node saw in one step of a schedule."""

    node: int
    seen: tuple[Seen, ...]


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How often each may happen in one schedule, at any moment. Nothing has to happen, except that crashes are noticed.

    A crash is noticed by every other node, each at a moment of its own. A false suspicion is taken back.
    """

    crashes: int = 0
    recoveries: int = 0
    losses: int = 0
    duplicates: int = 0
    #: Expiries of timers before the system is quiet. After that all timers expire, in the order of their delays.
    timers: int = 0
    suspicions: int = 0

    @property
    def in_words(self) -> str:
        """What may go wrong, e.g. "1 crash, 2 losses"."""
        names = {"crashes": "crash", "recoveries": "recovery", "losses": "loss", "suspicions": "false suspicion"}
        parts = []
        for name in BOUNDS:
            count = getattr(self, name)
            if count:
                one = names.get(name, name[:-1])
                many = "false suspicions" if name == "suspicions" else name
                parts.append(f"{count} {one if count == 1 else many}")
        return ", ".join(parts).replace("timer", "early timer") or "no fault"


#: The names of the bounds, in the order of `State.spent`.
BOUNDS: Final = Bounds.__struct_fields__


def waiting(process: Process) -> list[str]:
    """What a process holds, and what it says it waits for."""
    held = max(process.held, len(process.holding()))
    return [*([f"holds {held} messages for ever"] if held else []), *process.unfinished()]


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A system to explore. `make` is replaced by mutations."""

    summary: str
    nodes: int
    make: MakeProcess
    #: By topic: the nodes that take it from the beginning.
    founders: Founders
    #: By node: what its application does, in this order.
    script: Mapping[int, Sequence[Step]]
    bounds: Bounds = Bounds()
    #: The nodes that may crash and be suspected; None: all.
    mortal: tuple[int, ...] | None = None
    #: Do nodes notice crashes and recoveries?
    detector: bool = True
    #: By sender, receiver and packet: does the packet stay in order with others of its link for which this holds?
    #: Such packets are not lost or repeated.
    fifo: Callable[[int, int, Packet], bool] | None = None
    #: May this timer expire before the system is quiet? Some timers are longer than anything takes, by design.
    may_be_early: Callable[[Hashable], bool] = lambda timer: True
    across_topics: bool = True
    #: The rules of the audit that hold after every step.
    order: tuple[str, ...] = ORDER
    #: The rules of the audit that hold once the system is at rest, given the processes that are up and what happened.
    #: Where it returns no more than `ORDER`, processes may wait for what is lost.
    rules: Callable[[Mapping[int, Process], Sequence[Happening]], tuple[str, ...]] = lambda processes, happened: (
        NOTHING_LOST
    )
    #: What a process waits for although it need not, in words.
    unfinished: Callable[[Process], Sequence[str]] = waiting
    #: Records what applications see.
    tracer: Callable[[Recorder], AppTracer] = AppTracer

    @property
    def in_words(self) -> str:
        return f"{self.summary}; {self.bounds.in_words}"
