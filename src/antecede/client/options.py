"""The options of a bus's calls, checked before anything is sent."""

import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, TypedDict

from antecede.client.message import ReadMessage
from antecede.core import LimitError, UsageError
from antecede.core.limits import DEPENDENCIES_MAX
from antecede.wire.cursors import MessageId
from antecede.wire.requests import (
    CREDIT_MAX,
    FILTERS_MAX,
    MAX_AGE_US_MAX,
    MAX_AGE_US_MIN,
    TIMEOUT_MS_MAX,
    Order,
    Policy,
)
from antecede.wire.topics import check_filter

#: How long a publication may take, unless the caller says otherwise; and how long at most: a day.
PUBLISH_TIMEOUT_S: Final = 30.0
PUBLISH_TIMEOUT_S_MAX: Final = TIMEOUT_MS_MAX / 1000

#: The ages that a feed may allow its messages.
MAX_AGE_S_MIN: Final = MAX_AGE_US_MIN / 1_000_000
MAX_AGE_S_MAX: Final = MAX_AGE_US_MAX / 1_000_000

Headers: TypeAlias = dict[str, str] | None
#: The messages that a publication follows; None: everything this client has read and published.
After: TypeAlias = Iterable[MessageId | ReadMessage] | None


class ConnectOptions(TypedDict, total=False):
    """Keywords of `connect`."""

    name: str
    token: str
    tls: ssl.SSLContext | Path | str | None
    cluster: str
    timeout_s: float
    patience_s: float
    clear_token: bool


class PublishOptions(TypedDict, total=False):
    """Keywords of `Bus.publish`."""

    headers: Headers
    after: After
    durability: str | None
    timeout_s: float


class SubscribeOptions(TypedDict, total=False):
    """Keywords of `Bus.subscribe`."""

    since: str | None
    order: Order
    policy: Policy
    queue: int
    over_gaps: bool
    max_age_s: float | None


class Subscription(NamedTuple):
    """What a feed was asked for (`BaseBus.subscribe`), checked."""

    filters: tuple[str, ...]
    since: str | None
    order: Order
    policy: Policy
    queue: int
    over_gaps: bool
    max_age_s: float | None = None


def checked_timeout(timeout_s: float) -> float:
    if not 0 < timeout_s <= PUBLISH_TIMEOUT_S_MAX:
        remedy = f"use up to {PUBLISH_TIMEOUT_S_MAX:g} seconds"
        raise UsageError("timeout_s", timeout_s, "is not a time to wait", remedy)
    return timeout_s


def named(after: Iterable[MessageId | ReadMessage]) -> tuple[tuple[int, int], ...]:
    named = [one.id if isinstance(one, ReadMessage) else one for one in after]
    if len(named) > DEPENDENCIES_MAX:
        remedy = "name the last message of each source: the others precede it"
        raise LimitError("messages named by `after`", len(named), DEPENDENCIES_MAX, remedy)
    for one in named:
        if not (isinstance(one, tuple) and len(one) == 2):
            raise UsageError("after", one, "is not a message", 'name messages or their ids: [MessageId.parse("3.17")]')
    return tuple([(source, seq) for source, seq in named])


def check_subscription(
    filters: tuple[str, ...], order: str, policy: str, queue: int, max_age_s: float | None = None
) -> None:
    if not filters:
        raise UsageError("filters", filters, "there are none", 'name at least one, or "#" for everything')
    if len(filters) > FILTERS_MAX:
        raise LimitError("filters of one feed", len(filters), FILTERS_MAX, "use wildcards, or several feeds")
    for pattern in filters:
        check_filter(pattern)
    if order not in ("causal", "total", "fifo", "none"):
        raise UsageError("order", order, "is not an order", "use causal, total, fifo or none")
    if policy not in ("block", "drop_oldest", "disconnect"):
        raise UsageError("policy", policy, "is not a policy", "use block, drop_oldest or disconnect")
    if not 1 <= queue <= CREDIT_MAX:
        raise UsageError("queue", queue, "is out of range", f"use 1 … {CREDIT_MAX}")
    if max_age_s is not None:
        check_max_age(max_age_s, order)


def check_max_age(max_age_s: float, order: str = "causal") -> None:
    """Raises `UsageError` for an age that no feed of this order can have."""
    if order != "causal":
        remedy = 'use order="causal", or leave max_age_s out'
        raise UsageError("max_age_s", max_age_s, f"is not for order {order!r}", remedy)
    if not MAX_AGE_S_MIN <= max_age_s <= MAX_AGE_S_MAX:
        remedy = f"use {MAX_AGE_S_MIN:g} … {MAX_AGE_S_MAX:g} seconds"
        raise UsageError("max_age_s", max_age_s, "is not an age that a message may have", remedy)
