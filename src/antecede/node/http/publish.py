"""One publication that came over HTTP: taken by `node.publishing`, as those of every other client."""

import asyncio
from typing import TYPE_CHECKING

from antecede.node.publishing import Publications
from antecede.wire.once import OncePerTurn
from antecede.wire.requests import Failed, FromNode, Publish
from antecede.wire.security.tokens import ANYBODY, Grants

if TYPE_CHECKING:
    from antecede.node.node import Node


class Publication:
    """Owns a `Publications` for one message, and says how it went."""

    def __init__(self, node: "Node", grant: Grants) -> None:
        self.node = node
        self.grant = grant
        #: With whom it shares its turns: requests with the same token.
        self.client: object = self if grant is ANYBODY else grant.name
        self._result: asyncio.Future[tuple[int, int] | Failed] = asyncio.get_running_loop().create_future()
        #: There are acknowledgements: look at them at the end of this turn.
        self.touch = OncePerTurn(self._acknowledge)
        self._publications = Publications(self)

    async def publish(
        self, payload: bytes, after: tuple[tuple[int, int], ...], level: int, timeout_ms: int
    ) -> tuple[int, int] | Failed:
        """The source and number of the message, once it is as safe as `level` asks; or why it failed."""
        record = Publish(0, (payload,), after, level, timeout_ms)
        turns = self.node.hub.turns
        if turns.at_once(self.client):
            turns.spend(self.client, self._publications.take(record))
        else:
            turns.add(self.client, lambda: self._publications.take(record))
        try:
            return await self._result
        finally:
            self._publications.close()

    # -- what `Publications` calls -------------------------------------------------------------------------------------

    def send(self, record: FromNode) -> None:
        if isinstance(record, Failed) and not self._result.done():
            self._result.set_result(record)

    def _acknowledge(self) -> None:
        for acks in self._publications.acknowledgements():
            for _, seq, _ in acks.runs:
                if not self._result.done():
                    self._result.set_result((acks.source, seq))
