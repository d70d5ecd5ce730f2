"""The calls of a bus, the same whether a node is behind it (`client.Bus`) or logs of another system (`logs.LogBus`)."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, TypeAlias, TypeVar

from antecede.client.options import (
    PUBLISH_TIMEOUT_S,
    After,
    Headers,
    Subscription,
    check_subscription,
    checked_timeout,
)
from antecede.wire.cursors import MessageId
from antecede.wire.requests import Order, Policy

#: Messages that wait in a feed, unless it was asked for more or fewer.
QUEUE_MESSAGES: Final = 1024

#: Publish: topic, payload, headers, after, durability and timeout_s, as below.
Submit: TypeAlias = Callable[[str, bytes, Headers, After, str | None, float], "asyncio.Future[MessageId]"]

FeedType = TypeVar("FeedType")


class BaseBus(ABC, Generic[FeedType]):
    """Base of a bus whose feeds are of type `FeedType`."""

    _submit: Submit

    async def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: Headers = None,
        after: After = None,
        durability: str | None = None,
        timeout_s: float = PUBLISH_TIMEOUT_S,
    ) -> MessageId:
        """Publish, and return the message's id once it is safe.

        It follows everything this client has read and published; `after` narrows that to the messages named.
        `durability`: "memory" (the node has it), "disk" (its journal has it), "replicated(k)" (so have k other nodes);
        by default as safe as the node is by itself. Over logs it is checked against what the log system gives. Raises
        `PublishError` when that is not so within `timeout_s`: it says why, and its `may_arrive` whether the message may
        be delivered all the same.
        """
        if self._must_wait():
            loop = asyncio.get_running_loop()
            deadline = loop.time() + checked_timeout(timeout_s)
            await self._until_ready(timeout_s)
            timeout_s = max(0.001, deadline - loop.time())
        return await self._submit(topic, payload, headers, after, durability, timeout_s)

    def publish_nowait(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: Headers = None,
        after: After = None,
        durability: str | None = None,
        timeout_s: float = PUBLISH_TIMEOUT_S,
    ) -> "asyncio.Future[MessageId]":
        """Publish without waiting: the future is what `publish` returns. Messages have the order of these calls.

        Raises `LimitError` when too many publications, or too many bytes of larger ones, are not acknowledged yet:
        await one of them.
        """
        return self._submit(topic, payload, headers, after, durability, timeout_s)

    def subscribe(
        self,
        *filters: str,
        since: str | None = None,
        order: Order = "causal",
        policy: Policy = "block",
        queue: int = QUEUE_MESSAGES,
        over_gaps: bool = False,
        max_age_s: float | None = None,
    ) -> FeedType:
        """A feed of the topics that any of `filters` takes: `+` stands for one level, `#` for the rest.

        `since`: a message's cursor, to go on right behind it, at its node or at another; "0" for everything that the
        node, or the logs, still have; by default from now on. `order`: "causal"; "total" (all readers read the same
        order, except messages marked `out_of_order`; for clusters with `protocol = "total"`); "fifo" (messages of one
        source in order, ahead of what they depend on); "none" (as they come). `queue`: messages that may wait here.
        `policy` is for a reader that lags: "block" (nothing is lost: the rest waits in the node's journal),
        "drop_oldest" (see `Feed.dropped`), "disconnect" (`SlowReaderError`). Over logs, which keep what waits, there
        are only "causal" and "block", and `since` may be a cut.

        A node that was away for longer than any node keeps messages never delivers some, and retention removes records
        of logs. The feed ends there with `GapError`; opened again with `over_gaps=True` it reads on behind them.

        `max_age_s` is for media and games, where a late message is worthless (Δ-causal order): messages that are older
        when their turn comes are skipped and counted in `Feed.dropped`, also behind `since`. A message waits for those
        it depends on until it has that age. Clocks of publishers and of the reader's node must agree to within a
        quarter of it.
        """
        check_subscription(filters, order, policy, queue, max_age_s)
        return self._feed(Subscription(filters, since, order, policy, queue, over_gaps, max_age_s))

    @abstractmethod
    def _must_wait(self) -> bool:
        """Must the next publication wait: for a connection, or for the acknowledgement of others?"""

    @abstractmethod
    async def _until_ready(self, timeout_s: float) -> None:
        """Return when it need not. Raises `PublishError` if that takes longer than `timeout_s`."""

    @abstractmethod
    def _feed(self, wanted: Subscription) -> FeedType: ...
