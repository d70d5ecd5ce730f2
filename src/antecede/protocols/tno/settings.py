"""The settings of an ordering module: equal at all nodes of a system."""

from collections.abc import Callable

import msgspec

from antecede.protocols.tno.manager import Rules


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that all modules of a system share."""

    #: By topic, or for the keeper: the nodes that manage it, the first leader first.
    managers: Callable[[str], tuple[int, ...]]
    #: The first order of topics, highest first. Topics that it does not name are below, by name.
    order: tuple[str, ...] = ()
    #: By node: the topics it takes from the beginning.
    founders: dict[int, frozenset[str]] = {}
    rules: Rules = Rules()
    #: Use the paper's rule for what is in order (`clock`).
    printed: bool = False
    #: How many events a subscriber holds; None: any number; 0: none, so an early event makes its predecessors late.
    buffer: int | None = None
    #: How long an event waits for its predecessors; 0: without end.
    ttl_us: int = 0
    #: How many timestamps a publisher requests at a time.
    window: int = 64
    #: After how long a request is repeated: longer than a round trip along all managers.
    retry_us: int
    #: After how many repetitions without an answer a node gives up until a node recovers or there is news; 0: never.
    tries: int = 0
    #: How long an acknowledgement waits for others: less than `retry_us`.
    ack_us: int
    #: When an event that was numbered and never published is declared void, sooner if its publisher is suspected;
    #: 0: never.
    lease_us: int = 0
    #: Must a node take a topic to publish on it?
    publishers_subscribe: bool = True
