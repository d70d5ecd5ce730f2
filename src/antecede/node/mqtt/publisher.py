"""Publishes what an MQTT client, or its will, says: through `node.publishing`, as for every other client.

The order, the grants, the waiting and the bounds are those of `Publications`. This file numbers the requests and tells
their maker how each one went.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from antecede.node.publishing import Publications
from antecede.wire.mqtt.reasons import Reason
from antecede.wire.once import OncePerTurn
from antecede.wire.requests import TIMEOUT_MS_MAX, Failed, FromNode, Publish
from antecede.wire.security.tokens import Grants

if TYPE_CHECKING:
    from antecede.node.node import Node

#: Called with how a publication went.
Done: TypeAlias = Callable[[Reason], None]

#: Reasons by the kinds of `Failed`. A publication that is late or was stopped may still arrive.
_REASONS: Final = {"denied": Reason.NOT_AUTHORIZED, "usage": Reason.IMPLEMENTATION_SPECIFIC}


class Publisher:
    """The publications of one client. It owns a `Publications` as a session of our own protocol does."""

    def __init__(self, node: "Node", client: object, grant: Grants) -> None:
        self.node = node
        self.client = client
        self.grant = grant
        #: Publications that are not as safe yet as was asked, and their bytes.
        self.under_way = 0
        self.bytes_under_way = 0
        #: Called when some publications are done.
        self.progressed: Callable[[], None] = lambda: None
        self._done: dict[int, tuple[Done | None, int]] = {}
        self._next = 0
        #: There are acknowledgements: look at them at the end of this turn.
        self.touch = OncePerTurn(self._acknowledge)
        self._closing = False
        self._publications = Publications(self)

    def publish(self, payloads: Sequence[bytes], done: Sequence[Done | None], *, safely: bool) -> int:
        """Publish envelopes in this order; what it cost (`turns`). `safely`: as safe as the node is by itself."""
        first = self._next
        self._next += len(payloads)
        self.under_way += len(payloads)
        for number, (payload, one) in enumerate(zip(payloads, done, strict=True), first):
            self._done[number] = (one, len(payload))
            self.bytes_under_way += len(payload)
        level = -1 if safely else 0
        # A device names no deadline: while the node is busy it is not read, and its publications wait.
        return self._publications.take(Publish(first, tuple(payloads), (), level, TIMEOUT_MS_MAX))

    def close(self) -> None:
        """The client is gone. What it has sent is published all the same."""
        self._closing = True
        self._close_when_done()

    def _close_when_done(self) -> None:
        if self._closing and not self.under_way:
            self._publications.close()

    # -- what `Publications` calls -------------------------------------------------------------------------------------

    def send(self, record: FromNode) -> None:
        if isinstance(record, Failed):
            self._end(record.number, _REASONS.get(record.kind, Reason.UNSPECIFIED))
            self.touch()

    def _acknowledge(self) -> None:
        for acks in self._publications.acknowledgements():
            for number, _, count in acks.runs:
                for one in range(number, number + count):
                    self._end(one, Reason.SUCCESS)
        self.progressed()
        self._close_when_done()

    def _end(self, number: int, reason: Reason) -> None:
        done, size = self._done.pop(number, (None, 0))
        self.under_way -= 1
        self.bytes_under_way -= size
        if done is not None:
            done(reason)
