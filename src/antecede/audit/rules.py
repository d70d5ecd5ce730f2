"""Names the rules of the audit and holds what a caller asks of a trace. Every judge uses these definitions."""

from dataclasses import dataclass
from typing import Final

from antecede.core.errors import UsageError
from antecede.trace import Event

#: Every rule in the order of a report, with the reason a report gives when the trace has nothing to judge it by.
NOTHING_TO_CHECK: Final[dict[str, str]] = {
    "causal": "nothing was published or delivered",
    "fifo": "nothing was delivered",
    "exactly-once": "nothing was delivered",
    "no-invention": "nothing was published or delivered",
    "same-content": "no publish or deliver row has a digest of its payload",
    "complete": "nothing was owed to any node",
    "agreement": "nothing was owed to any node",
    "tree-edges-once": "there are no send rows that name a message",
    "total": "no two nodes delivered two messages in common",
}
#: The reason of `complete` and `agreement` in a trace without subscribe rows and without broadcast nodes.
NO_SUBSCRIPTIONS: Final = "there are no subscribe rows, so the trace does not say which node is owed which message"

ALL_RULES: Final = tuple(NOTHING_TO_CHECK)
#: Every rule but `total`, which only some protocols promise.
DEFAULT_RULES: Final = tuple(name for name in ALL_RULES if name != "total")

#: The notes by which a protocol tags a delivery that it could not give in order: later messages came before it, or
#: messages that it depends on are gone.
OUT_OF_ORDER: Final = "out_of_order"
INCOMPLETE: Final = "incomplete"
TAGS: Final = (OUT_OF_ORDER, INCOMPLETE)

#: The events after which a node is down until its next recover row.
GOES_DOWN: Final = frozenset((Event.CRASH, Event.STOP))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a caller asks of a trace: which rules, and what the protocol promises. Refuses a rule that does not exist.

    `across_topics`: causal order holds over all topics; false where a protocol promises it within each topic only.
    `broadcast_to`: nodes that are owed every message from the start, for broadcasts, which have no subscribe rows.
    `examples`: how many violations of each rule to describe, from the first on.
    """

    across_topics: bool = True
    rules: tuple[str, ...] = DEFAULT_RULES
    broadcast_to: tuple[int, ...] = ()
    examples: int = 1

    def __post_init__(self) -> None:
        if self.examples < 1:
            raise UsageError("examples", self.examples, "is not a count", "ask for 1 or more")
        for name in self.rules:
            if name not in ALL_RULES:
                raise UsageError("rules", name, "there is no such rule", f"choose from {', '.join(ALL_RULES)}")
